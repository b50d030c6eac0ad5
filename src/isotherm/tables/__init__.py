"""From a table to a posterior, and from its draws to predictions: what `isotherm fit` and `isotherm predict` do.

files → columns                     reading (delimited, arrow, arrays)
columns → what is done with each    recipe: a JSON file in the run's folder, from which new rows are encoded too
recipe, columns → arrays            encoding
recipe → Posterior                  model
draws → coefficients, scores        summary; in the terminal: printing; in the report: section
options, from flags or TOML         options
all of it                           command
a file → arrays on disk             convert: for data larger than memory
"""
