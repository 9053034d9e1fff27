"""HeadView: any attention weights, head by head. `widget.py` is what Python knows, `view.js` what the page does."""
