"""SealedBox: a layer asked from outside. `ask.py` asks, `plateaus.py` finds the steps, `view.js` shows them."""
