"""ScoreBars: what one head adds up and two keep apart. `widget.py` holds the scores, `view.js` adds and weighs."""
