"""The paper, reproduced. The rest of isotherm does not import anything from here.

- `catalogue` has the experiments: step sizes, passes and seeds; `weak_order` is one of its own making. printed.toml has
  the numbers that the paper prints.
- From an experiment to results: `tasks` (data, model, settings) → `experiment` (which jobs a command runs) → `jobs`
  (run them, keep their results) → `cell` (sample and measure one cell, with `metrics`), `nuts` (the reference),
  `largest_step`.
- From results to the report: `results` → `tables` (numbers, captions), `plots` (which curves, colours, markers) →
  `report` (the page, and where its numbers are from).
- The commands: `reproduce`, `demo`, `stored_runs` (`isotherm sample`, `resume`, `check` and `report`).
"""

NAMES = ("linear-regression", "mnist", "cifar10", "letter", "acoustic", "mnist10", "weak-order")
