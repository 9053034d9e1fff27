"""`python -m mhalib.pretrained [--download]`: say where the real model is, or fetch it."""

import sys

from mhalib.pretrained.minilm import main

if __name__ == "__main__":
    sys.exit(main())
