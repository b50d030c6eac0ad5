"""Default priors of estimators and tables, as standard deviations, and the standard units that they are meant for."""

from typing import NamedTuple

import numpy as np

COEFFICIENT_SCALE = 2.5  # of generalised linear models: wide, and yet no probability is 0 or 1 (Gelman et al. 2008)
INTERCEPT_SCALE = 10.0  # hardly any prior: the data say it
REGRESSOR_SCALE = 1.0  # weights and biases of a network for a number in standard units
CLASSIFIER_SCALE = 2.0  # of a network for classes, whose borders may be sharp
CLASSIFIER_OUTPUT = 8.0  # by which such a network's output is multiplied: about how large log-odds may be
MACHINE_SCALE = 3.0  # of a Boltzmann machine: about what the paper's experiments have

CONSTANT = 1e-10  # of a column's largest value: a smaller standard deviation is rounding, which grows with the rows


class Units(NamedTuple):
    """Where columns begin and how large they are: (x − centre)/scale is in standard units."""

    centre: np.ndarray
    scale: np.ndarray

    def standard(self, values: np.ndarray) -> np.ndarray:
        return (values - self.centre) / self.scale


NO_UNITS = Units(np.zeros(()), np.ones(()))


def standard_units(values: np.ndarray, weight: np.ndarray | None = None, centred: bool = True) -> Units:
    """Return mean (0 unless `centred`) and standard deviation, or 1, of each column; rows count `weight` times."""
    centre = np.average(values, axis=0, weights=weight) if centred else np.zeros(values.shape[1:])
    spread = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=weight))
    varies = spread > CONSTANT * np.abs(values).max(axis=0, initial=0)
    return Units(centre, np.where(varies, spread, 1.0))


def column_units(values: np.ndarray, weight: np.ndarray | None = None, centred: bool = True) -> Units:
    """Return the units of columns that have a coefficient each.

    One that has the same value in most rows, such as an indicator of something rare, is as large as where it has
    another: its standard deviation is divided by the root of the share of those rows. By its standard deviation alone,
    an indicator of one row in a thousand would be 30, and so would, by the prior, be its effect.
    """
    units = standard_units(values, weight, centred)
    sorting = None if weight is None or (weight == weight[0]).all() else weight  # equal weights need no sorting
    middle = np.quantile(values, 0.5, axis=0, method="inverted_cdf", weights=sorting)
    share = np.average(middle != values, axis=0, weights=weight)
    return units._replace(scale=units.scale / np.sqrt(np.where(share > 0, share, 1.0)))
