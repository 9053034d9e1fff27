"""`python -m mhalib.pretrained [--download]`: say where the real models are, or fetch them."""

import argparse
import sys

from mhalib.pretrained import minilm
from mhalib.pretrained.weights import WeightsMissing, find, read_verified

MODELS = (minilm.MINILM,)


def main(argv: list[str] | None = None) -> int:
    """Say where the weights are, or how to get them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mhalib.pretrained", description="Where is the real model?")
    parser.add_argument(
        "--download", action="store_true", help="fetch it from the hub of Hugging Face if it is missing"
    )
    given = parser.parse_args(argv)
    code = 0
    for record in MODELS:
        try:
            folder = find(record, download=given.download)
            read_verified(record, folder)
            print(f"{record.name} is in {folder}, verified.")
        except (WeightsMissing, ValueError) as error:
            print(error, file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
