"""The exercises, one module for each lesson; `mhalib.checks.check` finds them by their names."""
