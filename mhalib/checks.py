"""Exercises and predictions were here until version 0.3."""

raise ImportError("mhalib.checks is now the package mhacourse: write `from mhacourse import check, predict`")
