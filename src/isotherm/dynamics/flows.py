"""The exact flow of each letter, and the steps that words of letters such as "BAODCDOAB", a sampler's `scheme`, make.

In mass-whitened variables, where p stands for M^(−1/2)p and w for M^(−1/2):

A  dθ = w p dt                            drift
B  dp = F̃ dt                              kick
C  dp = −Γ p dt,  Γ = (h/2)βS             noise friction
O  dp = −ξ p dt + √(2A/β) dW              Ornstein–Uhlenbeck
D  dξ = (p·p − d/β)/μ dt                  thermostat
E  A and C together

A letter that occurs m times runs h/m. The force is evaluated once a step, at the position where the step begins, so
a word is turned (cyclically) until it opens with its kick: BAODCDOAB closes one step and opens the next with the
same force, and its two half kicks are one. The sequence of positions is that of the word as written, seen from
another phase. C uses the covariance of that same evaluation.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

from isotherm.lib.types import Array, Float, Number, Scalar, Vector

S = TypeVar("S")
Moves = tuple[tuple[str, float], ...]
Values = Float[Array, "..."]

MOVING = "AE"  # letters that change the position, after which the force would have to be evaluated again


def drift(position: Vector, momentum: Vector, w: Vector | Number, t: Number) -> Vector:
    return position + t * w * momentum


def kick(momentum: Vector, force: Vector, t: Number) -> Vector:
    return momentum + t * force


def ornstein_uhlenbeck(
    momentum: Vector, noise: Vector, xi: Number, friction: Number, temperature: Number, t: Number
) -> Vector:
    """p ← e^(−ξt) p + √((A/β)(1 − e^(−2ξt))/ξ) R, for ξ of any sign."""
    spread = 2 * t * friction * temperature * decay_average(2 * xi * t)
    return jnp.exp(-xi * t) * momentum + jnp.sqrt(spread) * noise


def thermostat(xi: Scalar, momentum: Vector, temperature: Number, thermal_mass: Number, t: Number) -> Scalar:
    """ξ ← ξ + (t/μ)(p·p − d/β)."""
    return xi + t / thermal_mass * (momentum @ momentum - momentum.size * temperature)


def decay_average(x: Values | float) -> Values:
    """φ(x) = (1 − e^(−x))/x, the average of e^(−xs) over s in [0, 1]; 1 at x = 0."""
    safe = jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 1, -jnp.expm1(-safe) / safe)


class Path(NamedTuple):
    """Where E leads in a time t: by how much it moves the position, over t; the momentum after it; p·p on average."""

    moved: Array
    momentum: Array
    energy: Scalar


def joint(momentum: Array, y: Array) -> Path:
    """E: drift and noise friction together, in coordinates in which the friction is y/t:

        θ ← θ + tφ(y)p,    p ← e^(−y)p,    p·p averages p·φ(2y)p

    is the exact solution; the last is half (φ(y)p)·(p + e^(−y)p), since φ(2y) = φ(y)(1 + e^(−y))/2."""
    moved, after = decay_average(y) * momentum, jnp.exp(-y) * momentum
    return Path(moved, after, jnp.sum(moved * (momentum + after)) / 2)


def moves(word: object, letters: str) -> Moves:
    """Return the (letter, fraction of h) of a step, its kick first. `letters` are those the sampler needs.

    >>> moves("BAODCDOAB", "ABCDO")
    (('B', 1.0), ('A', 0.5), ('O', 0.5), ('D', 0.5), ('C', 1.0), ('D', 0.5), ('O', 0.5), ('A', 0.5))
    """
    if not isinstance(word, str):
        raise TypeError(f"scheme must be a word such as 'BAODCDOAB', got {word!r}")
    for letter in word:
        if letter not in letters:
            raise ValueError(f"scheme {word!r} has the unknown letter {letter!r}; this sampler knows {letters}")
    for letter in letters:
        if letter not in word:
            raise ValueError(f"scheme {word!r} lacks the letter {letter!r}; this sampler needs each of {letters}")
    turned = _kick_first(word)
    counts = Counter(word)
    merged: list[tuple[str, Fraction]] = []
    for letter in turned:
        length = Fraction(1, counts[letter])
        if merged and merged[-1][0] == letter:
            length += merged.pop()[1]
        merged.append((letter, length))
    return tuple((letter, float(length)) for letter, length in merged)


def run(moves: Moves, flows: Mapping[str, Callable[[S, Any], S]], state: S, h: Number) -> S:
    """Return the state after a step: each letter's flow for its share of h, in order."""
    for letter, share in moves:
        state = flows[letter](state, share * h)
    return state


def _kick_first(word: str) -> str:
    """Return `word` turned so that all its kicks come before the position moves; refused if that cannot be."""
    for start in range(len(word)):
        turned = word[start:] + word[:start]
        if turned[0] == "B" and not set(turned[: turned.rindex("B")]) & set(MOVING):
            return turned
    raise ValueError(
        f"scheme {word!r} needs two force evaluations a step: the position moves between its B's; "
        "put them side by side or at the two ends"
    )
