"""Where exercises and predictions were until version 0.3."""

raise ImportError("mhalib.checks is the package mhacourse now: write `from mhacourse import check, predict`")
