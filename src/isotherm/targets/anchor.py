"""`isotherm.anchor`: a few passes over the data, after which a draw no longer costs passes."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import AliasTable, Batches, place
from isotherm.data.on_disk.open_data import host, shapes
from isotherm.lib import arguments
from isotherm.lib.progress import Passes
from isotherm.lib.types import Batch, Example, Params, Scalar, Vector
from isotherm.posterior import Posterior
from isotherm.targets import checks, forces, newton
from isotherm.targets.forces import Noise, make_anchored, measure_noise, table_by_leverage, weighted_rows
from isotherm.targets.newton import PROBES, CannotAnchor, LogPosterior, Mode, RowSums, find_mode, moved, turned
from isotherm.targets.noisy import DENSE_PARAMETERS, refusal
from isotherm.targets.parameters import MOST_SEED, entry_name, initial_positions
from isotherm.targets.target import Anchored, Coordinates, Findings, Target
from isotherm.targets.user import has_effects, with_defaults
from isotherm.targets.wide import Wide
from isotherm.targets.wide_anchor import anchor_wide

# The way to the mode
STAGES = ((2_000, 10), forces.CURVATURE_ROWS)  # rows, at least and for each parameter, to look for the mode on first
NEAR = 0.3  # standard deviations from the mode, root mean square over directions, that are near enough
MODE_PASSES = 5  # over all rows, on the way from the mode of a subsample to the mode of all
FALLS = (10.0, 100.0, 1000.0)  # standard deviations beyond the mode, on the line from the start, at which the log
# posterior must have fallen
INDEFINITE = 1e-3  # curvatures below this, relative to the largest, are flat or negative, where all should be 1

# The order and the batch size
TRUST = {1: 0.1, 2: 0.04}  # by order, the largest h²S/2 at h = 1, in the noisiest direction, at which S need not be
# known well: less at order 2, where S grows with the fourth power of the distance from the anchor
QUIET_SHARE = 0.125  # of the rows: the smaller noise of order 2 is not bought with larger batches than this
LARGE_SHARE = 0.25  # of the rows in a batch: with more, anchoring saves nothing
LEAST_BATCH = 64
INFINITE_BATCH = 2**30  # rows, more than any data set has: the batch size where the noise is infinite
PAYING_STEPS = 10_000  # in which order 2 must pay for its Hessian, which costs a pass over the data per 8 parameters
FREE_PARAMETERS = 2 * PROBES  # up to which the Hessian costs no more than the leverages did, so need not pay


@processes.together()
def anchor(
    posterior: Posterior, data: Batch | None = None, init: Params | None = None, *, seed: int = 0, progress: bool = True
) -> Anchored | Wide:
    """Return a posterior seen from a point near its mode, so that the cost of a draw does not grow with the data.

    It is the same posterior: some of the sum over examples is taken exactly, once, and batches estimate what is left,
    which is little (docs/how-it-works/anchor.md). It takes a few passes over the data, needs second derivatives and
    d×d matrices, and is worth it where there are many more examples than parameters and the posterior has one mode.

    Args:
        posterior: the model.
        data: a pytree of arrays with one leading length N.
        init: the parameters to start from.
        seed: seed of the random rows and directions of the search.
        progress: whether to show a bar (on a terminal only).

    Returns:
        An anchored posterior, which goes wherever a `Posterior` goes. Printed, it says what was found.

    Examples:
        >>> import jax.numpy as jnp, numpy as np
        >>> x = np.random.default_rng(0).standard_normal((5000, 3)).astype(np.float32)
        >>> posterior = Posterior(
        ...     lambda theta, row: -0.5 * (row["y"] - row["x"] @ theta) ** 2, lambda theta: -0.5 * jnp.sum(theta**2)
        ... )
        >>> anchored = anchor(posterior, {"x": x, "y": x @ np.float32([1, 2, 3])}, jnp.zeros(3))
        >>> np.round(anchored.coordinates.origin, 2)
        Array([1., 2., 3.], dtype=float32)
    """
    rng = np.random.default_rng(arguments.integer("seed", seed, 0, MOST_SEED))
    target, start, data = _checked(posterior, data, init, seed)
    if has_effects(target):
        _check_second_derivatives(target, start, data)
        with Passes(sum(processes.row_counts(data)), progress and processes.is_first()) as passes:
            return anchor_wide(target, data, target.unravel(jnp.asarray(start)), rng, passes)
    if start.size > DENSE_PARAMETERS:
        raise CannotAnchor(
            f"the model has {start.size:,} parameters, and anchoring needs d×d matrices, for up to {DENSE_PARAMETERS:,}"
        )
    _check_second_derivatives(target, start, data)
    rows = sum(processes.row_counts(data))
    with Passes(rows, progress and processes.is_first()) as passes:
        sums = RowSums(target, data, passes=passes, shared=True)
        found = Search(target, data, rows, rng, passes, sums).run(start)
    # All processes found the same up to rounding; from here on all use the numbers of the first.
    return processes.firsts_of(found)


def _checked(posterior: Posterior, data: Batch, init: Params | None, seed: int) -> tuple[Target, np.ndarray, Batch]:
    """Return the plain model, where to start, and the data on the device."""
    target, data, init = with_defaults(posterior, data, init)
    data = checks.checked_data(data)
    batches = Batches(sum(processes.row_counts(data)), 1)
    init = target.typical_params(seed, 1)[0] if init is None else init
    evaluation, starts = initial_positions(target.plain, data, init, batches, None, 1, seed)
    data = jax.tree.map(place, data)
    checks.check_starts(evaluation, starts, data)
    return evaluation.target, starts[0], data


def _check_second_derivatives(target: Target, start: np.ndarray, data: Batch) -> None:
    """Refuse a model that JAX cannot differentiate in forward mode and then in reverse mode."""

    @jax.jit
    def log_likelihood(flat: Vector, row: Example) -> Scalar:
        return target.log_likelihood(target.unravel(flat), row)

    @jax.jit
    def slope(flat: Vector, row: Example) -> Scalar:
        derivative: Scalar = jax.jvp(lambda flat: log_likelihood(flat, row), (flat,), (flat,))[1]
        return derivative

    row = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), shapes(data))
    if error := refusal(jax.grad(slope), start, row):
        raise CannotAnchor(
            "log_likelihood cannot be differentiated twice, forward and backward, which anchoring needs: with a "
            "jax.custom_vjp derivatives go backward only, with a jax.custom_jvp both ways"
        ) from error


class Candidate(NamedTuple):
    """An order of the Taylor polynomials, the noise that they leave, and the batch size that makes it small."""

    order: int
    noise: Noise
    batch_size: int


@dataclass(frozen=True)
class Search:
    """The steps of `anchor`, and what they share."""

    target: Target
    data: Batch
    rows: int
    rng: np.random.Generator
    passes: Passes
    sums: RowSums

    def run(self, start: np.ndarray) -> Anchored:
        mode, some_rows = self.mode_of_some(start)
        if some_rows < self.rows:
            mode = self.mode_of_all(mode.at, some_rows)
        table, plain_noise = self.by_leverage(mode.at)  # after `mode_of_all` in coordinates that know the rare rows too
        return self.choose(mode, table, plain_noise, some_rows)

    def mode_of_some(self, start: np.ndarray) -> tuple[Mode, int]:
        """Return the mode of a subsample, whitened by its curvature scaled to all rows, and its number of rows. The
        prior is not scaled down: it weighs more, so that a level with few rows cannot throw the mode far off."""
        at = beginning = Coordinates(start, np.eye(start.size, dtype=start.dtype))
        sizes = [min(self.rows, max(least, each * start.size)) for least, each in STAGES]
        found: tuple[Mode, int] | None = None
        for size in dict.fromkeys([*sizes, self.rows]):
            if found is not None and size not in sizes:
                break  # some rows were enough
            try:
                found = self.mode_of(size, at, start), size
                at = found[0].at
            except CannotAnchor:  # more rows may have a mode: these lack a level, or lead into a funnel
                if size == self.rows:
                    raise
                found, at = None, beginning
        assert found is not None
        mode, size = found
        prior_curvature = mode.here.curvature + mode.here.likelihood_hessian
        return self.with_unit_curvature(mode, prior_curvature - (self.rows / size) * mode.here.likelihood_hessian), size

    def mode_of(self, size: int, at: Coordinates, start: np.ndarray) -> Mode:
        """Return the mode of `size` rows, chosen at random."""
        self.passes.say(f"mode of {size:,} rows")
        sums = self.sums
        if size < self.rows:
            chosen = np.sort(self.rng.choice(self.rows, size, replace=False, shuffle=False))
            some = processes.rows_of(jax.tree.map(host, self.data), chosen)
            sums = RowSums(self.target, some, passes=self.passes)
        mode = find_mode(LogPosterior(sums), at, NEAR)
        if mode.distance > 1:
            raise CannotAnchor(
                f"Newton's method finds no maximum of the log posterior in {newton.NEWTON_STEPS} steps; if there is "
                "one, start nearer to it"
            )
        check_falls(start, mode, LogPosterior(sums))
        return mode

    def mode_of_all(self, at: Coordinates, some_rows: int) -> Mode:
        """Return the mode of all rows, by Newton's method with the curvature of `some_rows`, drawn by leverage."""
        table, _ = self.by_leverage(at)
        self.passes.say("mode of all rows")
        drawn, weights = weighted_rows(self.data, table, some_rows, self.rng)
        some = RowSums(self.target, drawn, weights, self.rows / some_rows, self.passes)
        mode = find_mode(LogPosterior(self.sums, some), at, NEAR, MODE_PASSES)
        if mode.distance > NEAR:
            raise CannotAnchor(
                f"the mode of all rows is far from the mode of some: {mode.distance:.1f} standard deviations after "
                f"{MODE_PASSES} passes over the data"
            )
        return self.with_unit_curvature(mode, mode.here.curvature)

    def by_leverage(self, at: Coordinates) -> tuple[AliasTable, float]:
        """Return the table that draws rows by leverage, and the mean eigenvalue of S of one row drawn uniformly."""
        self.passes.say("leverages")
        table, total = table_by_leverage(self.sums, at, self.rng)
        return table, self.rows * total / len(at.origin)

    def with_unit_curvature(self, mode: Mode, K: np.ndarray) -> Mode:
        """Return the mode in coordinates in which the curvature K is I; refuse one that is not a maximum."""
        values, vectors = np.linalg.eigh(K)
        if not values[0] > INDEFINITE * max(1.0, values[-1]):
            direction = np.asarray(mode.at.factor, np.float64) @ vectors[:, 0]
            name = entry_name(self.target.unravel, direction, mode.at.origin.dtype)
            raise CannotAnchor(
                f"the log posterior has no maximum: where Newton's method ends, it does not bend down along {name}"
            )
        W = newton.inverse_root(K)
        return mode._replace(at=turned(mode.at, W), here=mode.here.turned(W))

    def choose(self, mode: Mode, table: AliasTable, plain_noise: float, some_rows: int) -> Anchored:
        """Return the anchored posterior of the cheapest order and batch size that leave little noise."""
        self.passes.say("noise")
        chosen = first = self.candidate(self.anchored(mode, table, 1))
        hessian_cost = self.rows * max(0, len(mode.at.origin) - FREE_PARAMETERS) / 8
        if PAYING_STEPS * first.batch_size > 2 * PAYING_STEPS * LEAST_BATCH + hessian_cost:
            second = self.candidate(self.anchored(mode, table, 2))
            if LARGE_SHARE * self.rows < second.batch_size <= self.rows:  # a single odd row may have made it so large
                second = self.candidate(self.anchored(mode, table, 2), 4 * forces.NOISE_POSITIONS)
            only_second = second.batch_size <= LARGE_SHARE * self.rows < first.batch_size
            if only_second or PAYING_STEPS * first.batch_size > 2 * PAYING_STEPS * second.batch_size + hessian_cost:
                chosen = second
        if chosen.order == 2 and (mode.stale or some_rows < self.rows):
            self.passes.say("curvature of all rows")
            here = LogPosterior(self.sums).with_hessian(mode.at, mode.here)
            mode = self.with_unit_curvature(mode._replace(here=here, stale=False), here.curvature)
        size = chosen.batch_size
        noises = chosen.noise.largest / 2 / size, plain_noise / 2 / size
        self.passes.say("other modes")
        chosen_rows = self.rng.integers(0, self.rows, min(self.rows, STAGES[0][0]))  # which do not count as passes
        few = processes.rows_of(jax.tree.map(host, self.data), chosen_rows)
        other = newton.find_other_mode(RowSums(self.target, few), self.sums, mode.at, self.rng)
        modes = 1 if other is None else 2
        findings = Findings(self.passes.done, mode.distance, size, *noises, first.noise.bend, modes)
        return replace(self.anchored(mode, table, chosen.order), findings=findings)

    def candidate(self, anchored: Anchored, positions: int = forces.NOISE_POSITIONS) -> Candidate:
        """Return the noise, on average over `positions` z ~ N(0, I), and the batch size that makes it small."""
        typical = self.rng.standard_normal((positions, len(anchored.gradient)))
        noise = measure_noise(anchored, self.data, self.rng, typical)
        least, quiet = (min(noise.largest / 2 / TRUST[order], INFINITE_BATCH) for order in (1, anchored.order))
        size = math.ceil(max(LEAST_BATCH, least, min(quiet, QUIET_SHARE * self.rows)))
        return Candidate(anchored.order, noise, size)

    def anchored(self, mode: Mode, table: AliasTable, order: int) -> Anchored:
        H = mode.here.likelihood_hessian if order == 2 else None
        return make_anchored(self.target, mode.at, mode.here.likelihood_gradient, H, table)


def check_falls(start: np.ndarray, mode: Mode, density: LogPosterior) -> None:
    """Refuse a posterior that does not fall off on the line from the start through the mode: it is improper."""
    line = mode.at.position(start).astype(np.float64)
    length, least = float(np.linalg.norm(line)), mode.here.value - newton.SMALL_CHANGE
    beyond = (density.first_order(moved(mode.at, -far / length * line)).value for far in FALLS)
    if length >= 1 and all(value > least for value in beyond):
        raise CannotAnchor(
            "the log posterior does not fall beyond its mode, so it has no finite integral: classes that can be "
            "separated, or a flat prior? Give log_prior a finite variance",
            is_fault=True,
        )
