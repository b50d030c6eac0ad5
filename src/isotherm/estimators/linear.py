"""Linear, logistic and Poisson regression as estimators."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Tags

from isotherm.diagnostics.verdict import good_chains
from isotherm.estimators.base import BayesianEstimator, Classifier, Regressor
from isotherm.estimators.rows import Rows
from isotherm.lib.types import Params, Results
from isotherm.models import priors
from isotherm.models.families import Poisson
from isotherm.models.model import GeneralisedLinear, Model


@dataclass(kw_only=True, eq=False, repr=False)
class LinearModel(BayesianEstimator):
    """Coefficients and an intercept, of columns in standard units while they are sampled."""

    prior_scale: float = priors.COEFFICIENT_SCALE
    intercept_scale: float = priors.INTERCEPT_SCALE
    fit_intercept: bool = True

    def _make_model(self, features: int) -> Model:
        intercept = self.intercept_scale**2 if self.fit_intercept else 0.0
        return GeneralisedLinear(features, self._family, self.prior_scale**2, intercept)

    def _in_units(self, tree: Results) -> Results:
        """Return coefficients of the table's columns, and the noise in units of y."""
        import xarray

        found = tree["posterior"].to_dataset()
        target = getattr(self, "_target_units", priors.NO_UNITS)
        coef = found["coef"].values.astype(np.float64) * target.scale / self._units.scale
        dims = ["chain", "draw", *(["class"] if coef.ndim == 4 else [])]
        intercept = np.zeros(coef.shape[:-1])
        if self.fit_intercept:
            intercept = target.centre + target.scale * found["intercept"].values - coef @ self._units.centre
        arrays = {"coef": ([*dims, "feature"], coef), "intercept": (dims, intercept)}
        if "log_sigma" in found:
            arrays["sigma"] = (dims, target.scale * np.exp(found["log_sigma"].values.astype(np.float64)))
        names = {"feature": getattr(self, "feature_names_in_", np.arange(coef.shape[-1]))}
        names |= {"class": self.classes_} if "class" in dims else {}
        posterior = xarray.Dataset(arrays, {"chain": found["chain"], "draw": found["draw"], **names})
        posterior.attrs.update(tree["posterior"].attrs)
        good = posterior.isel(chain=good_chains(tree)).mean(("chain", "draw"))
        coef, intercept = good["coef"].values, good["intercept"].values
        self.coef_ = np.atleast_2d(coef) if is_classifier(self) else coef
        self.intercept_ = np.atleast_1d(intercept) if is_classifier(self) else float(intercept)
        root, stats = xarray.Dataset(attrs=tree.attrs), tree["sample_stats"].to_dataset()
        return xarray.DataTree.from_dict({"/": root, "posterior": posterior, "sample_stats": stats})


class BayesianLinearRegression(Regressor, LinearModel):
    """Linear regression with Gaussian noise of unknown size: y = x·coef + intercept + σε.

    Columns of X and y are standardised first; there, coefficients have the prior N(0, prior_scale²), the intercept
    N(0, intercept_scale²), and σ² a weak one, worth one observation (scaled inverse χ²(1, 0.1²)). A column with one
    value in most rows, such as an indicator of something rare, is scaled by its size in the other rows.

    Args:
        prior_scale: of the coefficients, for columns and y of standard deviation 1.
        intercept_scale: of the intercept, for columns of mean 0.
        fit_intercept: whether there is one. Without, columns and y are scaled but not moved.
        ess, seconds: effective draws that every parameter must have, and when to stop at the latest.
        chains, random_state: independent chains, and the seed: same number, same draws.
        progress: whether to show bars (on a terminal only).

    Attributes:
        coef_, intercept_: posterior means, in the units of X and y.
        posterior_: an `xarray.DataTree` with draws of `coef`, `intercept` and `sigma`, in the units of X and y.
        check_: the verdict of `isotherm.check`, computed when it is first asked for.
    """


class BayesianLogisticRegression(Classifier, LinearModel):
    """Logistic regression of two classes, or softmax regression of more.

    Columns of X, the prior, arguments and attributes are those of `BayesianLinearRegression`; besides, there are the
    `classes_`. For more than two classes, each has coefficients of its own: `coef_` is by (class, feature), or
    (1, feature) for two.
    """


class BayesianPoissonRegression(Regressor, LinearModel):
    """Counts: y ~ Poisson(exp(x·coef + intercept)).

    Columns of X, the prior, arguments and attributes are those of `BayesianLinearRegression`; y stays as it is.
    """

    _family = Poisson()

    def _targets(self, rows: Rows) -> np.ndarray:
        if (rows.y < 0).any():
            raise ValueError(f"y must hold counts, got the negative value {rows.y.min():g}")
        return rows.y.astype(np.float32)

    def _start(self, model: Model, rows: Rows) -> Params:
        """Return the logarithm of the mean count, which may be far from 0."""
        start = super()._start(model, rows)
        if self.fit_intercept:
            mean = np.average(rows.y, weights=rows.weight)
            start["intercept"] = np.float32(np.log(max(mean, 0.5 / rows.weight.sum())))
        return start

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
