"""PredictionView: a question before its answer. `widget.py` is what Python knows, `view.js` what the page does."""
