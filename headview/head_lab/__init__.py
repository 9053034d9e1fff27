"""HeadLab: an attention whose knobs you turn. `widget.py` is what Python knows, `view.js` what the page does."""
