"""LiveModel: a real model that runs in the page.

`pack.py` writes its weights in 8 bits, `load.js` brings them to the worker of `worker.js`, in which `wordpiece.js` cuts
and `bert.js` computes; `view.js` and `draw.js` show what comes out. `widget.py` is the side of Python.
"""
