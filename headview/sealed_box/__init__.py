"""SealedBox: a layer asked from outside. `asked.py` asks, `steps.py` finds plateaus and steps, `view.js` shows them."""
