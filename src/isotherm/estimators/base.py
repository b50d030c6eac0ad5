"""What the estimators share: from a table to a posterior, and from draws to predictions."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from isotherm.diagnostics.check import Verdict, check
from isotherm.estimators.rows import Rows, Weighted, fill_up, make_rows
from isotherm.lib import arguments
from isotherm.lib.types import Params, Results
from isotherm.lib.warn import warn
from isotherm.models.families import Bernoulli, Categorical, Family, Gaussian
from isotherm.models.model import Model
from isotherm.models.priors import NO_UNITS, column_units, standard_units
from isotherm.posterior import Posterior
from isotherm.predict import predict
from isotherm.predict.prediction import PREDICTION_DRAWS
from isotherm.run.fit import fit

if TYPE_CHECKING:
    import xarray

SEED_BOUND = 2**31 - 1
FLOATS = (np.float64, np.float32)  # kept as they are; all else becomes the first


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianEstimator(BaseEstimator, ABC):
    """Rows in standard units go to `isotherm.fit`. A subclass says which model they are of (`_make_model`), where its
    chains start (`_start`) and what its draws are in the units of the table (`_in_units`)."""

    ess: int = 400
    seconds: float | None = None
    chains: int = 4
    random_state: int | np.random.RandomState | None = None
    progress: bool = False
    _is_anchored = True  # unless there are many equivalent modes

    @property
    @abstractmethod
    def _family(self) -> Family:
        """How the target is distributed."""

    @abstractmethod
    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the target of each row as a number."""

    @abstractmethod
    def _make_model(self, features: int) -> Model:
        """Return the model of rows with this many columns."""

    @property
    def _is_centred(self) -> bool:
        """Whether columns may be moved: there is an intercept."""
        return bool(getattr(self, "fit_intercept", True))

    def _start(self, model: Model, rows: Rows) -> Params:
        """Return where chains start: at 0, unless a subclass knows better."""
        return model.zeros()

    def _in_units(self, tree: Results) -> Results:
        """Return the draws in the units of the table."""
        return tree

    @abstractmethod
    def _targets(self, rows: Rows) -> np.ndarray:
        """Return the targets as the model takes them."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior given X and y.

        Args:
            X: (rows, features); columns need no common scale.
            y: (rows,), numbers or classes.
            sample_weight: how often each row counts.
        """
        numbers = is_regressor(self)
        checked = validate_data(self, X, y, dtype=FLOATS, y_numeric=numbers, ensure_min_samples=2 if numbers else 1)
        X, y = cast(tuple[np.ndarray, np.ndarray], checked)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight must have a positive entry, got zero weights only")
        rows = make_rows(X, self._encode(y, weight), weight)
        self._units = column_units(rows.X, rows.weight, self._is_centred)
        model = self._make_model(X.shape[1])
        columns = {
            "x": self._units.standard(rows.X).astype(np.float32),
            "y": self._targets(rows),
            "weight": rows.weight.astype(np.float32),
        }
        self._data, self._model = fill_up(columns), model
        self._verdict: Verdict | None = None
        seed = int(check_random_state(self.random_state).randint(SEED_BOUND))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._tree = fit(
                self._posterior,
                self._data,
                self._start(model, rows),
                ess=self.ess,
                seconds=self.seconds,
                steps=getattr(self, "steps", None),
                anchored=self._is_anchored,
                chains=self.chains,
                seed=seed,
                progress=self.progress,
            )
        self.posterior_ = self._in_units(self._tree)
        for message in self._messages([each for each in caught if issubclass(each.category, RuntimeWarning)]):
            warn(f"{type(self).__name__}: {message}", ConvergenceWarning)
        return self

    @property
    def _posterior(self) -> Posterior:
        return Posterior(Weighted(self._model).log_likelihood, self._model.log_prior)

    def _messages(self, caught: list[warnings.WarningMessage]) -> list[str]:
        """Return what `fit` warned of, apart from its reason for how it sampled."""
        messages = dict.fromkeys(str(each.message) for each in caught)
        return [message for message in messages if message != self._tree.attrs["fit_reason"]]

    @property
    def check_(self) -> Verdict:
        """Whether to believe the draws: the verdict of `isotherm.check`, computed when it is first asked for."""
        check_is_fitted(self)
        if self._verdict is None:
            self._verdict = self._check()
        return self._verdict

    def _check(self) -> Verdict:
        return check(self._tree, self._posterior, self._data, progress=self.progress)

    def _predictions(self, X: ArrayLike, levels: tuple[float, ...] = ()) -> "xarray.Dataset":
        """Return mean, standard deviation and quantiles of `mean` and `variance` of y, for every row of X, in double
        precision: the prediction of a row must not depend on the rows beside it."""
        check_is_fitted(self)
        x = self._units.standard(validate_data(self, X, reset=False, dtype=np.float64))
        posterior = self._tree["posterior"].to_dataset()
        every = max(1, -(-posterior.sizes["chain"] * posterior.sizes["draw"] // PREDICTION_DRAWS))
        tree = self._tree.copy()
        tree["posterior"] = type(tree)(posterior.isel(draw=slice(None, None, every)).astype(np.float64))
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ chains diverged", RuntimeWarning)  # said by fit
            return predict(tree, self._model.moments, {"x": x}, quantiles=levels, progress=self.progress)

    def _interval(self, X: ArrayLike, level: float) -> np.ndarray:
        """Return lower and upper ends, by (2, row, …)."""
        if not 0 < arguments.number("level", level) < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self._predictions(X, ((1 - level) / 2, (1 + level) / 2))["mean_quantiles"].values


class Regressor(RegressorMixin, BayesianEstimator):
    """Targets in standard units, unless a subclass leaves them as they are."""

    _family: Family = Gaussian()
    _target_units = NO_UNITS

    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(y, np.float64)

    def _targets(self, rows: Rows) -> np.ndarray:
        self._target_units = standard_units(rows.y, rows.weight, self._is_centred)
        return self._target_units.standard(rows.y).astype(np.float32)

    def predict(self, X: ArrayLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the mean of y for every row of X, and its standard deviation if it is wanted.

        The standard deviation is that of a new y: of the noise, and of what is not known about the parameters.
        """
        found = self._predictions(X)
        centre, scale = self._target_units
        mean = centre + scale * found["mean_mean"].values
        if not return_std:
            return mean
        return mean, scale * np.sqrt(found["mean_sd"].values ** 2 + found["variance_mean"].values)

    def credible_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds between which the expected y of each row of X, without noise, lies with probability `level`."""
        centre, scale = self._target_units
        low, high = centre + scale * self._interval(X, level)
        return low, high


class Classifier(ClassifierMixin, BayesianEstimator):
    """Two or more classes."""

    def _encode(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        check_classification_targets(y)
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes with positive weight, got 1 class: {self.classes_[0]!r}"
            )
        return np.searchsorted(self.classes_, y).astype(np.float64)  # rows of weight 0 are left out

    def _targets(self, rows: Rows) -> np.ndarray:
        return rows.y.astype(np.int32)

    @property
    def _family(self) -> Family:
        return Bernoulli() if len(self.classes_) == 2 else Categorical(len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return probabilities of the classes for every row of X, averaged over the posterior."""
        p = self._predictions(X)["mean_mean"].values
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class for every row of X."""
        best = self.predict_proba(X).argmax(axis=1)  # which refuses an estimator that is not fitted, without classes_
        return self.classes_[best]

    def credible_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds between which the probability of each class lies with probability `level`, by (row, class)."""
        low, high = self._interval(X, level)
        if low.ndim == 2:
            return low, high
        return np.column_stack([1 - high, low]), np.column_stack([1 - low, high])
