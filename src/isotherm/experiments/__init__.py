"""The paper, reproduced. The rest of isotherm does not import anything from here.

- An experiment is one file: `linear_regression`, `mnist`, `cifar10`, `letter`, `acoustic`, `mnist10`, `weak_order`.
  Step sizes, passes and seeds are there; `paper` has the numbers that the paper prints.
- From an experiment to results: `tasks` (data, model, settings) → `experiment` (which jobs a command runs) → `jobs`
  (run them, keep their results) → `cell` (sample and measure one cell, with `classifier_metrics` or
  `gaussian_metrics` and `running_moments`), `nuts` (the reference), `largest_step`.
- From results to the report: `results` → `tables` (numbers, captions), `figure` (which curves), `plots` (colours,
  markers, fonts) → `report` with `report.css` (the page) and `provenance` (version, commit, machine).
- The commands: `reproduce`, `demo`, `stored_runs` (`isotherm sample` and `isotherm resume`).
"""

NAMES = ("linear-regression", "mnist", "cifar10", "letter", "acoustic", "mnist10", "weak-order")
