"""What the course is made, measured and shown with; run as modules from the repository's top folder."""

import sys

# Written into a file or a pipe, Windows knows some 250 characters: a sign that is not among them is spelled, and stops
# nothing. A notebook's output has no such word, and needs none.
if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="backslashreplace")
