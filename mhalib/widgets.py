"""Where the views were until version 0.3."""

raise ImportError("mhalib.widgets is the package headview now: write `from headview import HeadView, capture`")
