"""exp(−T)e₁ of a small tridiagonal T ≥ 0, in operations that XLA compiles into the loop.

Talbot's contour turns the exponential into a sum of resolvents (Trefethen, Weideman & Schmelzer 2006),

    e^(−x) ≈ Σ c_j/(x + z_j),        φ(x) = (1 − e^(−x))/x ≈ Σ (c_j/z_j)/(x + z_j),

for all x ≥ 0 at once, each pole adding a factor 3.9 of accuracy, and the resolvent of a tridiagonal matrix is a
continued fraction. LAPACK's eigenvectors, which would do as well, are a call out of the compiled loop.
"""

import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Array, Complex, Float

POLES = {32: 14, 64: 26}  # as many as the precision is worth: rounding grows by 1.2 with each


def decay(diagonal: Float[Array, " k"], beside: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return exp(−T)e₁, no longer than e₁, and φ(T)e₁ of the T with this diagonal and beside[i] left of its i-th entry;
    beside[0] is not used."""
    bits = max(32, jnp.finfo(diagonal.dtype).bits)
    z, c = (jnp.asarray(values, f"complex{2 * bits}") for values in contour(POLES[bits]))
    rows = _first_column(diagonal.astype(z.dtype), beside.astype(z.dtype), z)
    # Sums rather than products of matrices, which for complex numbers are calls out of the compiled loop.
    end, average = (jnp.sum((rows * weight[None]).real, axis=1).astype(diagonal.dtype) for weight in (c, c / z))
    # Where T is small the change is what has to be right: exp(−T)e₁ = e₁ − Tφ(T)e₁.
    below, above = jnp.append(beside[1:] * average[1:], 0), jnp.append(0, beside[1:] * average[:-1])
    change = diagonal * average + below.astype(end.dtype) + above.astype(end.dtype)
    end = jnp.where(diagonal.sum() < 1, np.eye(1, end.size, dtype=end.dtype)[0] - change, end)
    return end / jnp.maximum(1, jnp.sqrt(end @ end)), average


def _first_column(
    diagonal: Complex[Array, " k"], beside: Complex[Array, " k"], z: Complex[Array, " j"]
) -> Complex[Array, "k j"]:
    """Return (T + z_j)⁻¹e₁ for each pole: the fraction from its end, then the column from its top. Nothing is divided
    by zero: the imaginary part of each stage of the fraction is at least that of z."""
    stages = [diagonal[-1] + z]
    for i in reversed(range(diagonal.size - 1)):
        stages.append(diagonal[i] + z - beside[i + 1] ** 2 / stages[-1])
    column = [1 / stages.pop()]
    for i in range(1, diagonal.size):
        column.append(-beside[i] * column[-1] / stages.pop())
    return jnp.stack(column)


def contour(poles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return z_j and c_j of the upper half of the contour; the real part of the sum over it is that over the whole."""
    angle = (2 * np.arange(poles // 2) + 1) * np.pi / poles
    turn = 0.6407 * angle
    z = poles * (0.5017 * angle / np.tan(turn) - 0.6122 + 0.2645j * angle)
    slope = 0.5017 / np.tan(turn) - 0.5017 * turn / np.sin(turn) ** 2 + 0.2645j
    return z, -2j * np.exp(z) * slope
