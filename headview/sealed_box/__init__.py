"""SealedBox: a layer asked from outside. `inputs.py` asks, `plateaus.py` finds the steps, `view.js` shows them."""
