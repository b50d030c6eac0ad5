"""Networks and discriminative restricted Boltzmann machines as estimators.

Their parameters have many equivalent modes (hidden units can be exchanged), so that chains need not agree about them.
What chains must agree about is predictions, and these are what a verdict looks at.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from isotherm.checking import OTHER_MODES, Verdict, diverged
from isotherm.estimators.base import MOST_DRAWS, BayesianEstimator, Classifier, Regressor
from isotherm.estimators.rows import Rows
from isotherm.models.drbm import DRBM
from isotherm.models.families import Family, Gaussian
from isotherm.models.model import Model, method
from isotherm.models.predictors import Network
from isotherm.run.doubts import STRICT, Bounds, Line, converged, statistics
from isotherm.types import Example, Params

WATCHED = 32  # rows whose predictions are looked at
LENIENT = Bounds(1.1, 50, 0.1, 2.0)  # for a warning that nobody asked for
PERMUTED = "mean and variance of the parameters, of which many sets make the same predictions"


class NetworkModel(BayesianEstimator):
    """What is sampled for a number of steps, and judged by its predictions."""

    _is_network = True
    steps: int

    @property
    def _steps(self) -> int | None:  # type: ignore[override]
        return self.steps

    def _start(self, model: Model, rows: Rows) -> Params:
        """Draws from the prior, one for each chain."""
        return functools.partial(model.init, scale=model.prior_variance**0.5)

    def _doubts(self, caught: list[Any]) -> list[str]:
        """How chains ended, and what speaks against the predictions."""
        ended = [str(each.message) for each in caught if "diverged" in str(each.message)]
        return ended + [
            f"do not rely on this fit yet: {line.sentence}" for line in self._lines(LENIENT) if not line.good
        ]

    def _check(self) -> Verdict:
        return Verdict((*diverged(self._tree), *self._lines(STRICT)), (OTHER_MODES, PERMUTED), 0.0)

    def _lines(self, bounds: Bounds) -> list[Line]:
        values = self._watched_predictions()
        names = [f"the prediction of row {i // values.shape[3]}" for i in range(values.shape[2] * values.shape[3])]
        flat = values.reshape(*values.shape[:2], -1)
        return [*converged(flat, names, bounds), *statistics(self._tree, bounds)]

    def _watched_predictions(self) -> np.ndarray:
        """Of some rows of the data, by (chain, draw, row, class)."""
        used = np.flatnonzero(self._data["weight"])
        x = self._data["x"][used[np.unique(np.linspace(0, len(used) - 1, WATCHED).astype(int))]]
        found = self._tree["posterior"].to_dataset()
        found = found.isel(chain=self._tree["sample_stats"]["first_bad_step"].values < 0)
        chains, draws = found.sizes["chain"], found.sizes["draw"]
        every = max(1, chains * draws // MOST_DRAWS)
        params = {str(name): array[:, ::every].values for name, array in found.data_vars.items()}
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in params.items()}
        values = np.asarray(_means(self._moments(), flat, x))
        return values.reshape(chains, -1, len(x), values[0, 0].size)


@functools.partial(jax.jit, static_argnums=0)
def _means(moments: Any, draws: Params, x: Any) -> jax.Array:
    """E[y] by (draw, row, …)."""

    def at(params: Params) -> jax.Array:
        return jax.vmap(lambda row: moments(params, {"x": row})["mean"])(x)

    return jax.lax.map(at, draws, batch_size=128)


class MLP(NetworkModel):
    """Hidden layers of tanh units, or of another activation."""

    _family: Family

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (16,),
        activation: str = "tanh",
        prior_scale: float = 1.0,
        steps: int = 4000,
        ess: int = 400,
        seconds: float | None = None,
        chains: int = 4,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.prior_scale = prior_scale
        self.steps = steps
        self.ess = ess
        self.seconds = seconds
        self.chains = chains
        self.random_state = random_state
        self.progress = progress

    def _model(self, features: int) -> Model:
        return Network(features, tuple(self.hidden), self._family, self.activation, self.prior_scale**2)


class BayesianMLPRegressor(Regressor, MLP):
    """TODO"""

    _family = Gaussian()


class BayesianMLPClassifier(Classifier, MLP):
    """TODO"""


@dataclass(frozen=True)
class DRBMMoments:
    """Probabilities of the classes given x, and variances of their indicators."""

    model: DRBM

    @method
    def of(self, params: Params, example: Example) -> dict[str, jax.Array]:
        p = jax.nn.softmax(self.model._logits(params, jax.numpy.asarray(example["x"], params["W"].dtype)))
        return {"mean": p, "variance": p * (1 - p)}


class DiscriminativeRBMClassifier(Classifier, NetworkModel):
    """TODO"""

    def __init__(
        self,
        *,
        hidden: int = 16,
        prior_scale: float = 1.0,
        steps: int = 4000,
        ess: int = 400,
        seconds: float | None = None,
        chains: int = 4,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.steps = steps
        self.ess = ess
        self.seconds = seconds
        self.chains = chains
        self.random_state = random_state
        self.progress = progress

    def _model(self, features: int) -> Model:
        return DRBM(features, self.hidden, len(self.classes_), self.prior_scale**2)

    def _moments(self) -> Any:
        return DRBMMoments(self._sampled).of
