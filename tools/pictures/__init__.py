"""One picture a file, each with `ALT` and `draw`; `drawing` and `hand_built` are what they share."""
