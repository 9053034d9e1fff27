"""What a test needs of the system on which it runs."""

import os

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="make, sh, signals and links are those of Linux and macOS")
