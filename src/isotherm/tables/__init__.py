"""From a table to a posterior, and from its draws to predictions: what `isotherm fit` and `isotherm predict` do.

options, from flags or TOML         options
files → columns of some kinds       reading, columns; .npz and LIBSVM text: arrays
columns → what is done with each    recipe: a JSON file in the run's folder, by which new rows are encoded too
target → its family, the model      target
options → recipe, arrays            preparing
recipe → posterior → draws          model: that of the estimators
draws → coefficients, scores        results; in the terminal and in the report: show
new rows with predictions           output
a file → arrays on disk             convert: for data larger than memory

A kind of column is a class in columns.py, and what becomes of it one in recipe.py: a new one is added there.
"""
