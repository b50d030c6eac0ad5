"""How long until an answer is right: seconds to bring the posterior mean's test log loss within 1 % of NUTS's and keep
it there, MNIST 7/9. SGNHT and SGHMC, BlackJAX's and ours, at each step size and friction of a grid; eCCAdL as it is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import isotherm
from contestants import isotherms
from isotherm.paper.experiments import nuts
from isotherm.paper.experiments.tasks import Materials
from peers import blackjax_runs, blackjax_scan
from problems import Case, logistic_mnist
from timing import turns

STEP_SIZES = (3e-5, 6e-5, 1.2e-4, 2.4e-4, 5e-4, 1e-3)
FRICTIONS = (1.0, 10.0, 100.0, 1000.0)
PASSES, THIN, TIMED = 600, 10, 2000
SCREENED, KEPT = 3, 3  # seeds with which the whole grid is tried, and how many of each kind then run with all


class Settled(NamedTuple):
    """Seconds of each seed, infinite where it never settles, and what they are made of."""

    seconds: np.ndarray
    steps: np.ndarray

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


def settling(seeds: int) -> tuple[float, dict[str, Settled]]:
    """The log loss of NUTS's posterior mean, and what each contestant needs for it.

    The clock of a peer's run is its number of steps times the seconds a step takes it, measured in turn; eCCAdL, whose
    first steps cost more than later ones, is timed over the very steps it needs.
    """
    case = logistic_mnist()
    draws = nuts.draw(Materials(case.model, case.data, case.init, case.test), 2000, 0)
    truth = float(log_loss(case, draws.mean(axis=0)[None])[0])
    steps = round(PASSES * case.population / case.batch_size)
    names = ("sgnht", "sghmc")
    costs = turns(
        {
            **{f"BlackJAX {name}": blackjax_scan(case, name, TIMED, 1e-4) for name in names},
            **{f"our {name}": isotherms(case, getattr(isotherm, name)(1e-4), TIMED) for name in names},
        },
        9,
    )
    cost = {name: float(np.median(seconds[:, 0])) / TIMED for name, seconds in costs.items()}
    found = {}
    for name in names:
        peer = {A: blackjax_runs(case, name, steps, alpha=A) for A in FRICTIONS}

        def theirs(h: float, A: float, seed: int, peer: Any = peer) -> np.ndarray:
            return np.asarray(peer[A](h, seed))[THIN - 1 :: THIN]

        def own(h: float, A: float, seed: int, name: str = name) -> np.ndarray:
            return ours(case, getattr(isotherm, name)(h, A), steps, seed)

        for who, run in ((f"BlackJAX {name}", theirs), (f"our {name}", own)):
            for (h, A), needed in best(case, truth, run, seeds).items():
                found[f"{who}, h = {h:g}, A = {A:g}"] = Settled(cost[who] * needed, needed)
    needed = np.asarray([settled(case, ours(case, isotherm.eccadl(), steps, seed), truth) for seed in range(seeds)])
    found["our eccadl"] = Settled(np.asarray([timed(case, isotherm.eccadl(), n) for n in needed]), needed)
    return truth, found


def best(case: Case, truth: float, run: Callable[..., np.ndarray], seeds: int) -> dict[tuple[float, float], np.ndarray]:
    """The steps that each seed needs, at the settings of the grid that do best with a few seeds."""
    grid = [(h, A) for h in STEP_SIZES for A in FRICTIONS]
    few = {s: [settled(case, run(*s, seed), truth) for seed in range(SCREENED)] for s in grid}
    kept = sorted(grid, key=lambda s: float(np.median(few[s])))[:KEPT]
    return {s: np.asarray([settled(case, run(*s, seed), truth) for seed in range(seeds)]) for s in kept}


def timed(case: Case, sampler: Any, steps: float) -> float:
    if not np.isfinite(steps):
        return np.inf
    return float(np.median(turns({"": isotherms(case, sampler, int(steps))}, 9)[""][:, 0]))


def ours(case: Case, sampler: Any, steps: int, seed: int) -> np.ndarray:
    settings = {"batch_size": case.batch_size, "steps": steps, "burn_in": 0.0, "chains": 1, "progress": False}
    tree = isotherm.sample(case.posterior, sampler, case.data, case.init, thin=THIN, seed=seed, **settings)
    return tree.posterior.theta.values[0]


def settled(case: Case, draws: np.ndarray, truth: float) -> float:
    """The first step from which on the posterior mean so far, a fifth dropped, is as good as the truth to 1 %."""
    draws = draws.astype(np.float64)
    ends = np.unique(np.geomspace(2, len(draws), 300).astype(int))
    sums = np.concatenate([np.zeros((1, draws.shape[1])), np.cumsum(draws, axis=0)])
    means = np.stack([(sums[end] - sums[end // 5]) / (end - end // 5) for end in ends])
    inside = np.abs(log_loss(case, means) / truth - 1) <= 0.01  # NaN is not
    last = np.flatnonzero(~inside)[-1] if not inside.all() else -1
    return float(THIN * ends[last + 1]) if last + 1 < len(ends) else np.inf


def log_loss(case: Case, thetas: np.ndarray) -> np.ndarray:
    """Of each row, on the test set."""
    return np.mean(np.logaddexp(0, -case.test["y"] * (thetas @ case.test["x"].T.astype(np.float64))), axis=1)
