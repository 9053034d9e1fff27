"""ArrowView: a query among keys as arrows to drag. `widget.py` holds them, `view.js` draws, weighs and mixes."""
