"""Networks and discriminative restricted Boltzmann machines as estimators.

Their parameters have many equivalent modes (hidden units can be exchanged), so that chains need not agree about them.
What chains must agree about is predictions, and these are what a verdict looks at.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from isotherm.diagnostics.check import OTHER_MODES, Verdict, diverged
from isotherm.diagnostics.verdict import STRICT, Bounds, Line, converged, good_chains, statistics
from isotherm.estimators.base import BayesianEstimator, Classifier, Regressor
from isotherm.estimators.rows import Rows
from isotherm.lib.types import Params, RandomKey
from isotherm.models import priors
from isotherm.models.drbm import DRBM
from isotherm.models.model import Model, Network
from isotherm.models.warm_start import start_near_a_mode
from isotherm.predict.prediction import PREDICTION_DRAWS

WATCHED_ROWS = 32  # whose predictions chains must agree about
UNASKED = Bounds(1.1, 50, 0.1, 2.0)  # of the warnings that `fit` gives unasked
PERMUTED = "mean and variance of the parameters, of which many sets make the same predictions"


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkModel(BayesianEstimator):
    """An estimator that is sampled for a number of steps, and judged by its predictions."""

    steps: int = 1000
    _is_anchored = False

    def _start(self, model: Model, rows: Rows) -> Callable[[RandomKey], Params]:
        return start_near_a_mode(self._posterior, model, self._data)

    def _messages(self, caught: list[warnings.WarningMessage]) -> list[str]:
        """Return how chains ended, and what speaks against the predictions."""
        ended = [str(each.message) for each in caught if "diverged" in str(each.message)]
        bad = [line.sentence for line in self._lines(UNASKED) if not line.good]
        return ended + [f"do not rely on this fit yet: {sentence}" for sentence in bad]

    def _check(self) -> Verdict:
        return Verdict((*diverged(self._tree), *self._lines(STRICT)), (OTHER_MODES, PERMUTED), 0.0)

    def _lines(self, bounds: Bounds) -> list[Line]:
        values = self._watched_predictions()
        names = [f"the prediction of row {i // values.shape[3]}" for i in range(values.shape[2] * values.shape[3])]
        flat = values.reshape(*values.shape[:2], -1)
        return [*converged(flat, names, bounds), *statistics(self._tree, bounds)]

    def _watched_predictions(self) -> np.ndarray:
        """Return predictions of some rows of the data, by (chain, draw, row, class)."""
        used = np.flatnonzero(self._data["weight"])
        x = self._data["x"][used[np.unique(np.linspace(0, len(used) - 1, WATCHED_ROWS).astype(int))]]
        found = self._tree["posterior"].to_dataset().isel(chain=good_chains(self._tree))
        every = max(1, found.sizes["chain"] * found.sizes["draw"] // PREDICTION_DRAWS)
        params = {str(name): array[:, ::every].values for name, array in found.data_vars.items()}
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in params.items()}
        values = np.asarray(_means(self._model, flat, x))
        return values.reshape(found.sizes["chain"], -1, len(x), values[0, 0].size)


@partial(jax.jit, static_argnums=0)
def _means(model: Model, draws: Params, x: np.ndarray) -> jax.Array:
    """Return E[y] by (draw, row, …)."""
    return jax.lax.map(lambda params: jax.vmap(lambda row: model.mean(params, {"x": row}))(x), draws, batch_size=128)


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianMLP(NetworkModel):
    """Hidden layers of tanh units, or of another activation."""

    hidden: tuple[int, ...] = (16,)
    activation: str = "tanh"
    prior_scale: float = priors.REGRESSOR_SCALE
    output_scale = 1.0  # of a number; classifiers have a field

    def _make_model(self, features: int) -> Model:
        scales = self.prior_scale**2, self.output_scale
        return Network(features, tuple(self.hidden), self._family, self.activation, *scales)


class BayesianMLPRegressor(Regressor, BayesianMLP):
    """A network with Gaussian noise of unknown size: y = m(x) + σε.

    Columns of X and y are standardised first. Layers are h ↦ φ(Wh/√n + b), n the length of h, where all weights and
    biases have the prior N(0, prior_scale²), and σ² has a weak one, worth one observation.

    Args:
        hidden: widths of the hidden layers.
        activation: "tanh", "relu" or "silu".
        prior_scale: of weights and biases; larger, and the function may bend more.
        steps: of each chain, at most; a quarter is not kept. With up to 4,096 rows, a step looks at all of them.
        ess, seconds: stop earlier where all parameters have `ess` effective draws and R-hat ≤ 1.01, or by the clock.
        chains: independent chains, each of which begins near another mode, found by 500 steps of Adam.
        random_state, progress: the seed (same number, same draws), and whether to show bars (on a terminal only).

    Attributes:
        posterior_: an `xarray.DataTree` with draws of the parameters, which are of standardised columns.
        check_: whether to believe the predictions: convergence is judged by them, since hidden units can be exchanged.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianMLPClassifier(Classifier, BayesianMLP):
    """A network that tells classes apart: p(class) ∝ exp(output_scale · m(x)).

    Columns of X, layers, the prior of weights and biases, other arguments and attributes are those of
    `BayesianMLPRegressor`; besides, there are the `classes_`.

    Args:
        prior_scale: of weights and biases; larger, and the borders between classes may bend more.
        output_scale: how large log-odds may be, about; larger, and probabilities may be nearer to 0 and 1.
    """

    prior_scale: float = priors.CLASSIFIER_SCALE
    output_scale: float = priors.CLASSIFIER_OUTPUT


@dataclass(kw_only=True, eq=False, repr=False)
class DiscriminativeRBMClassifier(Classifier, NetworkModel):
    """A discriminative restricted Boltzmann machine (Larochelle & Bengio 2008), its hidden units summed out.

    Columns of X are standardised first; all parameters have the prior N(0, prior_scale²). Other arguments and
    attributes are those of `BayesianMLPRegressor`; besides, there are the `classes_`.

    Args:
        hidden: how many hidden units.
        prior_scale: of all parameters; 3 is about what the paper's experiments have.
    """

    hidden: int = 16
    prior_scale: float = priors.MACHINE_SCALE

    def _make_model(self, features: int) -> Model:
        return DRBM(features, self.hidden, len(self.classes_), self.prior_scale**2)
