"""HeadScatter: heads as points over two measures of a survey. `widget.py` holds the numbers, `view.js` draws them."""
