"""A page about a run: HTML, plots, and what goes into them."""
