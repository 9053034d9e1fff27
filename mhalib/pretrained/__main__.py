"""`python -m mhalib.pretrained [--download]`: say where the real models are, or fetch them."""

import argparse
import sys

from mhalib.pretrained.minilm import MINILM, WeightsMissing, find, read_verified


def main(argv: list[str] | None = None) -> int:
    """Say where the weights are, or how to get them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mhalib.pretrained", description="Where is the real model?")
    parser.add_argument(
        "--download", action="store_true", help="fetch it from the hub of Hugging Face if it is missing"
    )
    given = parser.parse_args(argv)
    try:
        folder = find(download=given.download)
        read_verified(folder)
    except (WeightsMissing, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{MINILM.name} is in {folder}, verified.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
