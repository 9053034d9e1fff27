"""ReshapeView: where every number goes in a reshape. `widget.py` is what Python knows, `view.js` what the page does."""
