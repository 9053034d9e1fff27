"""The views were here until version 0.3."""

raise ImportError("mhalib.widgets is now the package headview: write `from headview import HeadView, capture`")
