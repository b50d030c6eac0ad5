"""`isotherm.anchor`: a few passes over the data, after which a draw no longer costs passes."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.alias_table import make_table
from isotherm.data.batches import Batches, placed
from isotherm.data.on_disk import host, shapes
from isotherm.lib import arguments
from isotherm.lib.progress import Passes
from isotherm.lib.types import Batch, Params, Scalar, Vector
from isotherm.posterior import Posterior, Unravel
from isotherm.targets import checks, minibatch_noise
from isotherm.targets.anchored import Anchored, Coordinates, Findings, whitened
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.newton import HARDLY, MOST_STEPS, NoMode, Summit, Target, climb, moved, turned
from isotherm.targets.other_modes import another_mode
from isotherm.targets.parameter_names import entry_name
from isotherm.targets.start import MOST_SEED, flattening, starting_points
from isotherm.targets.sums import RowSums
from isotherm.targets.target import opened

MOST_PARAMETERS = 1024  # for which d×d matrices are decomposed, and eccadl's covariance is dense
STAGES = ((2_000, 10), (20_000, 100))  # rows, at least and for each parameter, on which the mode is looked for first
NEAR = 0.3  # standard deviations from the mode, root mean square over directions, that are near enough
MOST_PASSES = 5  # over all rows, on the way from the mode of a subsample to the mode of all
PROBES = 32  # random vectors that leverages are estimated from, with a relative error of about √(2/32) = 1/4
TRUST = {1: 0.1, 2: 0.04}  # by order, the largest h²S/2 at h = 1, in the noisiest direction, at which S need not be
# known well: less at order 2, where S grows with the fourth power of the distance from the anchor
QUIET_SHARE = 0.125  # of the rows: the smaller noise of order 2 is not bought with larger batches than this
LARGE_SHARE = 0.25  # of the rows in a batch: with more, anchoring saves nothing
LEAST_BATCH = 64
STEPS = 10_000  # within which order 2 must pay for its Hessian, which costs a pass over the data per eight parameters
FREE = 2 * PROBES  # parameters up to which the Hessian costs no more than the leverages did, so need not pay
FALLS = (10.0, 100.0, 1000.0)  # standard deviations beyond the mode, on the line from the start, at which the log
# posterior must have fallen
INDEFINITE = 1e-3  # curvatures below this, relative to the largest, are flat or negative, where all should be 1


UNKNOWN = Findings(0, 0, 1, 0, 0, 0, 1)
MOST_BATCH = 2**30  # rows, more than any data set has: the batch size where the noise is infinite


class CannotAnchor(ValueError):
    """Why a posterior cannot be anchored, in a sentence. `is_fault`: no other sampler can sample it either."""

    def __init__(self, reason: str, is_fault: bool = False) -> None:
        super().__init__(reason)
        self.is_fault = is_fault


def anchor(
    posterior: Posterior, data: Batch | None = None, init: Params | None = None, *, seed: int = 0, progress: bool = True
) -> Anchored:
    """A posterior seen from a point near its mode, so that the cost of a draw does not grow with the data.

    It is the same posterior: some of the sum over examples is taken exactly, once, and batches estimate what is left,
    which is little (docs/how-it-works/anchor.md). It takes a few passes over the data, needs second derivatives and
    d×d matrices, and is worth it where there are many more examples than parameters and the posterior has one mode.

    Args:
        posterior: the model.
        data: a pytree of arrays with one leading length N.
        init: the parameters to start from.
        seed: of the rows and directions that are looked at first.
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
    with processes.together():
        return _anchored(posterior, data, init, arguments.integer("seed", seed, 0, MOST_SEED), progress)


def _anchored(posterior: Posterior, data: Batch, init: Params | None, seed: int, progress: bool) -> Anchored:
    plain, unravel, start, data = _checked(posterior, data, init, seed)
    if start.size > MOST_PARAMETERS:
        raise CannotAnchor(
            f"the model has {start.size:,} parameters, and anchoring needs d×d matrices, for up to {MOST_PARAMETERS:,}"
        )
    _check_second_derivatives(plain, unravel, start, data)
    rows = sum(processes.row_counts(data))
    with Passes(rows, progress and processes.is_first()) as passes:
        try:
            found = _Anchoring(plain, unravel, data, rows, seed, passes).run(start)
        except NoMode as reason:
            raise CannotAnchor(str(reason), reason.is_fault) from None
    # All processes found the same up to rounding; from here on all use the numbers of the first.
    return processes.firsts_of(found)


def _checked(
    posterior: Posterior, data: Batch, init: Params | None, seed: int
) -> tuple[Posterior, Unravel, np.ndarray, Any]:
    """The plain model, the way back from flat parameters, where to start, and the data on the device."""
    model, rows_here, init = opened(posterior, data, init)
    posterior, data = model, processes.agreed(lambda: checks.checked_data(rows_here))
    population = sum(processes.row_counts(data))
    params = posterior.typical_params(seed, 1)[0] if init is None else starting_points(init, 1, seed)[0]
    checks.check_params(params)
    checks.check_model(posterior, params, data)
    dtype, unravel = flattening(params)
    start = np.concatenate([np.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(params)])
    plain, data = posterior.plain, jax.tree.map(placed, data)
    evaluation = Evaluation(plain, unravel, Batches(population, 1))
    checks.check_derivatives(evaluation, start, data)
    processes.agreed(lambda: checks.check_starts(evaluation, start[None], data))
    return plain, unravel, start, data


def _check_second_derivatives(posterior: Posterior, unravel: Unravel, start: np.ndarray, data: Batch) -> None:
    """Refuse a model that JAX cannot differentiate in forward mode and then in reverse mode."""

    def product(flat: Vector, data: Batch) -> Vector:
        row = jax.tree.map(lambda column: column[0], data)

        def slope(flat: Vector) -> Scalar:
            return jax.jvp(lambda flat: posterior.log_likelihood(unravel(flat), row), (flat,), (flat,))[1]

        return jax.grad(slope)(flat)

    try:
        jax.eval_shape(product, start, shapes(data))
    except Exception as error:
        raise CannotAnchor(
            "log_likelihood cannot be differentiated twice, forward and backward, which anchoring needs: with a "
            "jax.custom_vjp derivatives go backward only, with a jax.custom_jvp both ways"
        ) from error


class _Anchoring:
    """The steps of `anchor`, and what they share."""

    def __init__(
        self, posterior: Posterior, unravel: Unravel, data: Batch, rows: int, seed: int, passes: Passes
    ) -> None:
        self.posterior, self.unravel, self.data, self.rows, self.passes = posterior, unravel, data, rows, passes
        self.rng = np.random.default_rng(seed)
        here = len(jax.tree.leaves(data)[0])
        self.all = RowSums(posterior, unravel, data, advance=lambda some: passes.add(some * rows // here), shared=True)

    def run(self, start: np.ndarray) -> Anchored:
        summit = self.mode_of_some(start)
        plain = self.draw_by_leverage(summit.at)
        if self.some_rows < self.rows:
            summit = self.mode(summit.at)
            del self.table
            plain = self.draw_by_leverage(summit.at)  # with coordinates that know the rare rows too
        return self.choose(summit, plain)

    def mode_of_some(self, start: np.ndarray) -> Summit:
        """The mode of a subsample, in coordinates whitened by its curvature scaled to all rows. The prior is not scaled
        down: beside few rows it weighs more, so that a level with few rows cannot throw the mode far off."""
        at = beginning = Coordinates(start, np.eye(start.size, dtype=start.dtype))
        sizes = [min(self.rows, max(least, each * start.size)) for least, each in STAGES]
        found = None
        for size in dict.fromkeys([*sizes, self.rows]):
            if found is not None and size not in sizes:
                break  # some rows were enough
            try:
                found = self.mode_of(size, at, start)
            except NoMode:  # more rows may have one: these lack a level, or lead into a funnel
                if size == self.rows:
                    raise
                found, at = None, beginning
                continue
            self.some_rows, at = size, found.at
        assert found is not None
        here = found.here
        prior_curvature = here.curvature + here.likelihood_hessian
        return self.whitened(found, prior_curvature - (self.rows / self.some_rows) * here.likelihood_hessian)

    def mode_of(self, size: int, at: Coordinates, start: np.ndarray) -> Summit:
        """The mode of so many rows, chosen at random."""
        self.passes.say(f"mode of {size:,} rows")
        sums = self.all
        if size < self.rows:
            chosen = np.sort(self.rng.choice(self.rows, size, replace=False, shuffle=False))
            some = processes.rows_of(jax.tree.map(host, self.data), chosen)
            sums = RowSums(self.posterior, self.unravel, some, advance=self.passes.add)
        summit = climb(Target(sums), at, NEAR)
        if summit.distance > 1:
            raise NoMode(
                f"Newton's method finds no maximum of the log posterior in {MOST_STEPS} steps; if there is one, start "
                "nearer to it"
            )
        self.check_falls(start, summit, sums)
        return summit

    def draw_by_leverage(self, at: Coordinates) -> float:
        """Make the table that draws rows by their leverage at these coordinates. Returns the mean eigenvalue of S of
        one row drawn with equal probabilities."""
        self.passes.say("leverages")
        leverages, squares = self.all.leverages(at, self.rng.standard_normal((len(at.origin), PROBES)))
        total = float(squares.sum(dtype=np.float64))
        del squares
        probabilities = minibatch_noise.probabilities_of(leverages)
        del leverages
        self.table = make_table(probabilities, at.origin.dtype, overwrite=True)
        return self.rows * total / len(at.origin)

    def whitened(self, summit: Summit, K: np.ndarray) -> Summit:
        """The summit in coordinates in which the curvature K is I."""
        W = self.whitening(summit.at, K)
        return summit._replace(at=turned(summit.at, W), here=summit.here.turned(W))

    def check_falls(self, start: np.ndarray, summit: Summit, sums: RowSums) -> None:
        """Refuse a posterior that does not fall off on the line from the start through the mode: it is improper."""
        at, top = summit.at, summit.here.value
        line, target = at.position(start).astype(np.float64), Target(sums)
        length = float(np.linalg.norm(line))
        if length < 1:
            return
        for far in FALLS:
            if not target.slope(moved(at, -far / length * line)).value > top - HARDLY:
                return
        raise NoMode(
            "the log posterior does not fall beyond its mode, so it has no finite integral: classes that can be "
            "separated, or a flat prior? Give log_prior a finite variance",
            is_fault=True,
        )

    def mode(self, at: Coordinates) -> Summit:
        """Newton's method on all rows, with the curvature of as many rows as before, but drawn by leverage."""
        self.passes.say("mode of all rows")
        drawn, weights = minibatch_noise.weighted_rows(self.data, self.table, self.some_rows, self.rng)
        scale = self.rows / self.some_rows
        some = RowSums(self.posterior, self.unravel, drawn, weights, scale, self.passes.add)
        summit = climb(Target(self.all, some), at, NEAR, MOST_PASSES)
        if summit.distance > NEAR:
            raise NoMode(
                f"the mode of all rows is far from the mode of some: {summit.distance:.1f} standard deviations after "
                f"{MOST_PASSES} passes over the data"
            )
        return self.whitened(summit, summit.here.curvature)

    def whitening(self, at: Coordinates, K: np.ndarray) -> np.ndarray:
        """W with WᵀKW = I, if the posterior is curved in every direction."""
        values, vectors = np.linalg.eigh(K)
        if values[0] > INDEFINITE * max(1.0, values[-1]):
            return whitened(np.eye(len(K)), K)
        name = entry_name(self.unravel, np.asarray(at.factor, np.float64) @ vectors[:, 0], at.origin.dtype)
        raise NoMode(
            f"the log posterior has no maximum: where Newton's method ends, it does not bend down along {name}"
        )

    def choose(self, summit: Summit, plain: float) -> Anchored:
        """The order and the batch size with which little noise is left, at the least cost."""
        self.passes.say("noise")
        at, d = summit.at, len(summit.at.origin)
        (found, size), order = self.measured(self.anchored(summit, 1)), 1
        bend, hessian_cost = found.bend, self.rows * max(0, d - FREE) / 8
        if STEPS * size > 2 * STEPS * LEAST_BATCH + hessian_cost:
            second, smaller = self.measured(self.anchored(summit, 2))
            if LARGE_SHARE * self.rows < smaller <= self.rows:  # a single odd row may have made it so large
                second, smaller = self.measured(self.anchored(summit, 2), 4 * minibatch_noise.DRAWS)
            only_second = smaller <= LARGE_SHARE * self.rows < size
            if only_second or STEPS * size > 2 * STEPS * smaller + hessian_cost:
                found, size, order = second, smaller, 2
        if order == 2 and (summit.stale or self.some_rows < self.rows):
            self.passes.say("curvature of all rows")
            here = Target(self.all).with_hessian(at, summit.here)
            summit = self.whitened(summit._replace(here=here, stale=False), here.curvature)
        noises = found.largest / 2 / size, plain / 2 / size
        self.passes.say("other modes")
        findings = Findings(self.passes.done, summit.distance, size, *noises, bend, self.modes(at))
        return self.anchored(summit, order, findings)

    def modes(self, at: Coordinates) -> int:
        """2 if a search on few rows finds another mode, else 1; those rows do not count as passes."""
        chosen = self.rng.integers(0, self.rows, min(self.rows, STAGES[0][0]))
        few = processes.rows_of(jax.tree.map(host, self.data), chosen)
        found = another_mode(RowSums(self.posterior, self.unravel, few), self.all, at, self.rng)
        return 1 if found is None else 2

    def measured(
        self, candidate: Anchored, positions: int = minibatch_noise.DRAWS
    ) -> tuple[minibatch_noise.Noise, int]:
        """The noise, on average over so many positions, and the batch size that makes it small."""
        found = minibatch_noise.measure(candidate, self.unravel, self.data, self.rng, positions)
        least, quiet = (min(found.largest / 2 / TRUST[order], MOST_BATCH) for order in (1, candidate.order))
        return found, math.ceil(max(LEAST_BATCH, least, min(quiet, QUIET_SHARE * self.rows)))

    def anchored(self, summit: Summit, order: int, findings: Findings = UNKNOWN) -> Anchored:
        H = summit.here.likelihood_hessian if order == 2 else None
        arrays = summit.at, summit.here.likelihood_gradient, H
        dtype = summit.at.origin.dtype
        at, gradient, hessian = jax.tree.map(lambda array: jnp.asarray(array, dtype), arrays)
        return Anchored(
            self.posterior.log_likelihood,
            self.posterior.log_prior,
            coordinates=at,
            gradient=gradient,
            hessian=hessian,
            rows=self.table,
            findings=findings,
            unravel=self.unravel,
        )


def rows_for_curvature(parameters: int) -> int:
    least, each = STAGES[-1]
    return max(least, each * parameters)
