"""From a log-likelihood and a log-prior to the noisy force and its covariance, by one linearisation.

With f(θ) = (log π(x_i | θ))_i over a batch of n out of N examples and J its Jacobian,

    F̃ = (N/n) Jᵀ1 + ∇ log π(θ),        S = c Jᵀ(I − 11ᵀ/n) J,

where c = N²/(n(n−1)) for batches drawn with replacement and N(N−n)/(n(n−1)) without. `jax.linearize` gives J· and
its transpose Jᵀ·, so neither the n×d matrix of per-example gradients nor the d×d covariance is formed. Where rows are
drawn with unequal probabilities p_i, row i counts 1/(Np_i) times in f; the same formulas then hold.
"""

import contextlib
import re
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.alias_table import AliasTable
from isotherm.data.sharded import Part
from isotherm.lib.types import Array, Batch, Example, Float, Params, Scalar, Vector
from isotherm.posterior import Posterior, Unravel
from isotherm.targets.noisy import Covariance, Curvature, Noisy, SharedCovariance


class Target(Posterior):
    """What a sampler evaluates: a model as a function of a flat vector, the position.

    Here that is the parameters themselves, the log-likelihood is estimated from batches, and the log-prior is exact; an
    anchored posterior (targets/anchored.py) has other coordinates and knows more of the sum exactly.

    Examples:
        >>> import jax.numpy as jnp
        >>> target = Target(
        ...     lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
        ...     lambda theta: -0.5 * jnp.sum(theta**2),
        ... )
        >>> batch = {"x": jnp.eye(3), "y": jnp.ones(3)}
        >>> target.noisy(jnp.zeros(3), batch, population=6).force
        Array([2., 2., 2.], dtype=float32)
    """

    @property
    def plain(self) -> "Target":
        """The model alone, without what is known of it besides."""
        return Target(self.log_likelihood, self.log_prior)

    is_whitened = False  # whether the curvature is about 1 in every direction of the positions

    @property
    def table(self) -> AliasTable | None:
        """The probabilities with which rows are to be drawn, if not equal ones."""
        return None

    @property
    def chosen_batch_size(self) -> int | None:
        """The batch size that suits it, if that is known."""
        return None

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Parameters that are about as far from the mode as draws are, one for each chain, if that is known."""
        raise TypeError("init must be given: the parameters to start from, such as zeros of their shapes")

    def flat_parameters(self, position: Vector) -> Vector:
        """The parameters as one flat vector."""
        return position

    def position(self, flat: np.ndarray) -> np.ndarray:
        """The position of these parameters, on the host."""
        return flat

    def estimated(self, position: Vector, unravel: Unravel, example: Example) -> Scalar:
        """One example's share of what batches estimate; `unravel` makes parameters of a flat vector."""
        return self.log_likelihood(unravel(self.flat_parameters(position)), example)

    def exact(self, position: Vector, unravel: Unravel) -> Scalar:
        """The rest of the log density, up to a constant."""
        return self.log_prior(unravel(self.flat_parameters(position)))

    def noisy(
        self,
        position: Vector,
        batch: Batch,
        *,
        population: int,
        replace: bool = True,
        unravel: Unravel = lambda position: position,
        size: int | None = None,
        weights: Float[Array, " n"] | None = None,
        part: Part | None = None,
    ) -> Noisy:
        """The force at the flat vector `position` on `batch`, out of `population` examples, its covariance and the
        curvature. `size` is the number of examples of the batches whose forces S is the covariance of, if not this;
        `weights` are how often each example counts, 1/(Np_i), if they were not drawn with equal probabilities; `part`
        says which of a batch these rows are, if they are not all of it."""

        def one(position: Vector, example: Example, weight: Scalar | None) -> Scalar:
            value = self.estimated(position, unravel, example)
            return value if weight is None else weight.astype(value.dtype) * value

        def each(position: Vector) -> Float[Array, " n"]:
            values = jax.vmap(one, in_axes=(None, 0, 0))(position, batch, weights)
            return values if part is None else jnp.where(part.counted, values, 0)

        values, tangents = jax.linearize(each, position)
        transpose = jax.linear_transpose(tangents, position)
        rows = values.shape[0] if part is None else part.rows
        n = rows if size is None else size
        whole = size is not None and rows == population  # all examples, not a sample of them

        def exact(position: Vector) -> Scalar:
            return self.exact(position, unravel)

        slope = transpose(jnp.ones_like(values))[0]
        if part is not None:
            slope = part.total(slope)
        force = (population / rows) * slope + jax.grad(exact)(position)

        def forward(v: Vector) -> Float[Array, " n"]:
            # What JAX makes of one, and then cannot compile; a `custom_linear_solve` it can.
            if re.search(r"\bcustom_lin\b", str(jax.make_jaxpr(tangents)(v))):
                raise TypeError(
                    "log_likelihood has a jax.custom_vjp, through which derivatives go backward only, and this sampler "
                    'needs them forward too; use jax.custom_jvp, or isotherm.eccadl(covariance="dense")'
                )
            return tangents(v)

        def covariance() -> Covariance:
            if rows < 2:
                raise ValueError(f"batch_size must be at least 2 to estimate a covariance, got {rows}")
            spread = population * population if replace else population * max(population - n, 0)
            here = Covariance(
                spread / (n * (rows if replace and whole else rows - 1)),
                forward,
                lambda u: transpose(u)[0],
                lambda: jax.vmap(jax.grad(one), in_axes=(None, 0, 0))(position, batch, weights),
                rows**-0.5,
            )
            return here if part is None else SharedCovariance(**vars(here), part=part, mean=slope / rows)

        def curvature() -> Curvature | None:
            if self.is_whitened:
                return Curvature(lambda v: v, identity=True)

            def energy(position: Vector) -> Scalar:
                devices = 1 if part is None else jax.lax.axis_size(part.axis)  # of which each has its share of the rest
                return -(population / rows) * jnp.sum(each(position)) - exact(position) / devices

            def forward_over_reverse(v: Vector) -> Vector:
                return jax.jvp(jax.grad(energy), (position,), (v,))[1]

            def reverse_over_reverse(v: Vector) -> Vector:  # for a jax.custom_vjp, which has no forward derivative
                return jax.grad(lambda position: jax.grad(energy)(position) @ v)(position)

            for product in (forward_over_reverse, reverse_over_reverse):
                with contextlib.suppress(Exception):  # whatever a model's own derivative rules raise
                    jax.eval_shape(jax.vmap(product), position[None])  # batched, as they will be used
                    return Curvature(product if part is None else partial(_summed, part, product))
            return None

        ratio = n / population if replace else n / max(population - n, 1)
        if self.is_whitened:
            ratio = 0.0  # the information equality is about all of the log-likelihood, not what is left of it
        return Noisy(
            force,
            covariance,
            ratio,
            curvature,
            share=0.0 if whole else n / rows,
            population=population,
            size=n,
            is_whitened=self.is_whitened,
        )


def _summed(part: Part, product: Callable[[Vector], Vector], v: Vector) -> Vector:
    return part.total(product(v))


def as_target(posterior: Posterior) -> Target:
    """What a sampler evaluates where a user gave `posterior`."""
    return posterior if isinstance(posterior, Target) else Target(posterior.log_likelihood, posterior.log_prior)


def opened(posterior: object, data: Batch | None, init: Params | None = None) -> tuple[Target, Batch, Params | None]:
    """The target that is sampled, its data and where to start: those given or, in place of None, the model's own."""
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be an isotherm.Posterior, got {type(posterior).__name__}")
    model, data, init = posterior.opened(data, init)
    return as_target(model), data, init
