"""From a table to a posterior, and from its draws to predictions: what `isotherm fit` and `isotherm predict` do.

options, from flags or TOML         options
files → columns of some kinds       reading, columns
columns → what is done with each    recipe: a JSON file in the run's folder, by which new rows are encoded too
target → its family, the model      target
options → recipe, arrays            preparing
recipe → posterior → draws          model: that of the estimators
draws → coefficients, scores        results; in the terminal and in the report: show
new rows with predictions           output
a file → arrays on disk             convert: for data larger than memory

To add a kind of column: a class in columns.py says what it holds (`TableColumn`) and where it comes from, a type of
Arrow's (`from_arrow`), another kind (`parts`: a date has hours and weekdays) or an option: `read_first` in preparing.py
makes it of what was read (as text, as `--categorical`). `kind` is what the *file* holds; a new one also needs its words
(`WORDS`) and its type of Arrow's (`ARROW`). A class in recipe.py says what it becomes: columns of x (derive from
`NumberColumn`) or levels (from `LevelColumn`); `PLANS` joins the two.
"""
