"""`isotherm.check`: whether to believe a run, without a reference."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import stdtrit

from isotherm.diagnostics.convergence import ERROR_BLOCKS, FEWEST_DRAWS, watched
from isotherm.diagnostics.stein import SteinMoments, SteinTails, stein_moments, stein_tails
from isotherm.diagnostics.verdict import (
    FALSE_ALARMS,
    STRICT,
    Line,
    as_sampled,
    converged,
    entries,
    first_bad_steps,
    sizes,
    statistics,
    temperature_of,
)
from isotherm.lib import arguments
from isotherm.lib.progress import Passes
from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior
from isotherm.targets.checks import checked_data
from isotherm.targets.forces import forces_at
from isotherm.targets.noisy import DENSE_PARAMETERS
from isotherm.targets.parameters import is_function, named_entries, nested_params, starting_points
from isotherm.targets.target import Target
from isotherm.targets.user import with_defaults

SHIFT = 0.1  # standard deviations by which the mean may be off, root mean square over parameters,
WORST_SHIFT = 0.15  # and for one parameter
TRACE = 0.05  # by which the variance may be off on average, beside 3 standard errors,
WORST_VARIANCE = 0.2  # and for one parameter
TAILS = 0.1  # by which the kurtosis may be off on average, beside 3 standard errors,
WORST_TAILS = 0.5  # and for one parameter
FORCE_DRAWS = 1024  # at which forces are computed
OTHER_MODES = "modes that no chain has visited"


class MomentErrors(NamedTuple):
    """By parameter: how far mean, variance (`found`) and kurtosis (`tails`) are off, and how far they may be."""

    names: tuple[str, ...]
    found: SteinMoments
    tails: SteinTails
    allowed_shift: np.ndarray
    allowed_variance: np.ndarray
    allowed_tails: np.ndarray


@dataclass(frozen=True)
class Verdict:
    """What `isotherm.check` found: true if nothing is bad. Print it; `table` has a line for each thing, `moments` the
    mean, variance and tails of each parameter, where they were checked."""

    table: tuple[Line, ...]
    not_checked: tuple[str, ...]
    passes: float
    moments: MomentErrors | None = field(default=None, compare=False, repr=False)

    def __bool__(self) -> bool:
        return all(line.good for line in self.table)

    @property
    def summary(self) -> str:
        bad = [line.name for line in self.table if not line.good]
        return "nothing speaks against these draws" if not bad else f"do not rely on these draws: {', '.join(bad)}"

    def __str__(self) -> str:
        lines = [self.summary, *map(str, self.table), f"not checked: {'; '.join(self.not_checked)}"]
        return "\n".join([*lines, f"it took {self.passes:.1f} passes over the data"])


def check(
    tree: Results,
    posterior: Posterior,
    data: Batch | None = None,
    *,
    init: Params | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Verdict:
    """Return whether to believe a run: convergence, and how far its mean, variance and tails are from the posterior's.

    R-hat and effective sample size cannot see a bias. This looks at the forces, the gradients of the log posterior, at
    the draws: where draws are right, the forces are zero on average and the covariance of draws and forces is −I
    (docs/guide/check.md). It takes a few passes over the data. Of a run at a temperature T, the attribute
    `sampler_temperature`, the posterior is that to the power 1/T.

    Args:
        tree: what `isotherm.sample`, `isotherm.resume` or `isotherm.fit` returned, or draws of another sampler with the
            same names.
        posterior, data: those of the run.
        init: parameters like those of the run, or a function of a random key that draws them, if they are not a nest of
            dicts and lists.
        seed: of the rows and draws that are looked at.
        progress: whether to show a bar (on a terminal only).

    Returns:
        A `Verdict`: `bool(verdict)`, `print(verdict)`, `verdict.table`.
    """
    seed = arguments.integer("seed", seed, 0)
    target, data, _ = with_defaults(posterior, data)
    data = checked_data(data)
    tree = as_sampled(tree)
    names, draws, params = _draws(tree, init)
    with Passes(len(jax.tree.leaves(data)[0]), progress) as passes:
        chosen = watched([np.size(leaf) for leaf in jax.tree.leaves(params)])
        lines, moments = _own_numbers(tree, draws[..., chosen], [names[i] for i in chosen]), None
        not_checked = [OTHER_MODES]
        finite = np.isfinite(draws).all(axis=(1, 2))
        if draws.shape[2] > DENSE_PARAMETERS:
            why = f"they need d×d matrices, for up to {DENSE_PARAMETERS:,} parameters"
            not_checked.append(f"mean, variance and tails: {why}")
        elif draws.shape[1] < FEWEST_DRAWS or not finite.any():
            not_checked.append("mean, variance and tails: there are too few draws")
        else:
            T = temperature_of(tree)
            moments = _moments(draws[finite], names, target, params, data, seed, passes, T)
            widths = [_trace(moments.found, T), _variances(moments)]
            lines += [_shift(moments), *widths, _tails(moments, all(line.good for line in widths))]
        return Verdict(tuple(lines), tuple(not_checked), passes.done, moments)


def check_without_data(tree: Results) -> Verdict:
    """Return what a run's own numbers say, by the bounds of `check`; they cannot see every bias."""
    names, draws = watched_draws(tree)
    not_checked = (OTHER_MODES, "how far mean, variance and tails are off, which takes the posterior and the data")
    return Verdict(tuple(_own_numbers(tree, draws, names)), not_checked, 0.0)


def watched_draws(tree: Results) -> tuple[list[str], np.ndarray]:
    """Return names of the parameters, or of some if there are very many, and draws by (chain, draw, parameter)."""
    return entries(tree, watched(sizes(tree)))


def _own_numbers(tree: Results, draws: np.ndarray, names: list[str]) -> list[Line]:
    bounds = STRICT._replace(ess=tree.attrs.get("fit_ess", STRICT.ess))  # of `isotherm.fit`, what it was asked for
    return [*diverged(tree), *converged(draws, names, bounds), *statistics(tree, bounds)]


def _draws(tree: Results, init: Params | None) -> tuple[list[str], np.ndarray, Params]:
    """Return names of the parameters' entries, draws by (chain, draw, entry), and parameters of that structure."""
    dataset = tree["posterior"].to_dataset()
    shapes = {str(name): array.values for name, array in dataset.data_vars.items()}
    if init is None:
        init = nested_params({name: array[0, 0] for name, array in shapes.items()})
    elif is_function(init):
        init = starting_points(init, 1, 0)[0]
    names, order = named_entries(init)
    if sorted(order) != sorted(shapes):
        raise ValueError(
            f"the draws have {', '.join(shapes)}, and init has {', '.join(order)}; give init= as in the run"
        )
    flat = [shapes[name].reshape(*shapes[name].shape[:2], -1) for name in order]
    return names, np.concatenate(flat, axis=2), init


def diverged(tree: Results) -> list[Line]:
    steps = first_bad_steps(tree)
    if steps is None:
        return []
    bad = int((steps >= 0).sum())
    return [Line("divergences", not bad, f"{bad} chains", "none", "use a smaller step_size, or isotherm.fit")]


def _moments(
    draws: np.ndarray,
    names: list[str],
    posterior: Target,
    params: Params,
    data: Batch,
    seed: int,
    passes: Passes,
    temperature: float,
) -> MomentErrors:
    rng = np.random.default_rng(seed)
    every = max(1, draws.shape[0] * draws.shape[1] // FORCE_DRAWS)
    some = draws[:, ::every]
    z, forces, factor = forces_at(some, draws.mean(axis=(0, 1)), posterior.plain, params, data, rng, passes)
    z, forces = z / temperature**0.5, forces / temperature**0.5  # those of π^(1/T), in its own standard deviations
    along = factor / np.linalg.norm(factor, axis=1, keepdims=True)  # the direction in z in which a parameter changes
    errors = by_chance(len(names), z.shape[0] * min(ERROR_BLOCKS, z.shape[1]))
    return bounded(names, stein_moments(z, forces, along), stein_tails(z, forces, along), errors)


def bounded(names: list[str], found: SteinMoments, tails: SteinTails, errors: float) -> MomentErrors:
    """Return the moments with their bounds for one parameter, `errors` standard errors or more."""
    return MomentErrors(
        tuple(names),
        found,
        tails,
        np.maximum(WORST_SHIFT, errors * found.shift_error),
        np.maximum(WORST_VARIANCE, errors * if_right(found.variance, found.variance_error)),
        np.maximum(WORST_TAILS, errors * tails.excess_error),
    )


def if_right(variance: np.ndarray | float, error: np.ndarray | float) -> np.ndarray:
    """Return the error of a variance if it were 1: a larger one has a larger error, which would excuse it."""
    return np.asarray(error / np.maximum(variance, 1.0))


def _shift(moments: MomentErrors) -> Line:
    names, found, bounds = moments.names, moments.found, moments.allowed_shift
    size, worst = found.distance, int(np.argmax(abs(found.shift) / bounds))
    allowed = float(bounds[worst])
    return Line(
        "mean",
        bool(size <= SHIFT and abs(found.shift[worst]) <= allowed),
        f"off by {size:.3f} standard deviations; {names[worst]} by {found.shift[worst]:+.2f} "
        f"± {found.shift_error[worst]:.2f}",
        f"{SHIFT}, and {allowed:.2f} for one parameter",
        "run longer; if it stays, the sampler is biased: use isotherm.fit, or a smaller step_size",
    )


def _trace(found: SteinMoments, temperature: float) -> Line:
    allowed = TRACE + 3 * float(if_right(found.trace, found.trace_error))
    return Line(
        "variance",
        abs(found.trace - 1) <= allowed,
        f"{found.trace:.3f} ± {found.trace_error:.3f} times what it should be"
        + (f" at temperature {temperature:g}" if temperature != 1 else ""),
        f"{allowed:.1%} off",
        "too hot or not mixed: use isotherm.fit or isotherm.eccadl, larger batches, or a smaller step_size",
    )


def _variances(moments: MomentErrors) -> Line:
    names, found, allowed = moments.names, moments.found, moments.allowed_variance
    worst = int(np.argmax(abs(found.variance - 1) / allowed))
    return Line(
        "variance of each parameter",
        bool((abs(found.variance - 1) <= allowed).all()),
        f"{found.variance[worst]:.2f} ± {found.variance_error[worst]:.2f} times what it should be for {names[worst]}",
        f"{allowed[worst]:.1%} off",
        "run longer; if it stays, use isotherm.fit, or a smaller step_size",
    )


def _tails(moments: MomentErrors, variance_is_good: bool) -> Line:
    names, found, allowed = moments.names, moments.tails, moments.allowed_tails
    comfort = "the variance may be right all the same: " if variance_is_good else ""
    on_average, worst = TAILS + 3 * found.mean_error, int(np.argmax(abs(found.excess) / allowed))
    return Line(
        "tails",
        bool(abs(found.mean) <= on_average and abs(found.excess[worst]) <= allowed[worst]),
        f"a kurtosis {abs(found.mean):.2f} ± {found.mean_error:.2f} too {'large' if found.mean > 0 else 'small'} on "
        f"average; {names[worst]} by {found.excess[worst]:+.2f} ± {found.excess_error[worst]:.2f}",
        f"{on_average:.2f}, and {allowed[worst]:.2f} for one parameter",
        f"{comfort}use isotherm.fit, a smaller step_size, or run longer",
    )


def by_chance(parameters: int, blocks: int) -> float:
    """Return by how many standard errors the worst of `parameters` is off by chance, in a share FALSE_ALARMS of runs.
    Student's t allows for errors that come from few blocks, which are often too small."""
    return float(-stdtrit(max(1, blocks - 1), FALSE_ALARMS / 2 / parameters))
