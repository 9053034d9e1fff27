"""HeadSwitchboard: heads switched off by hand. `widget.py` is what Python knows, `view.js` what the page does."""
