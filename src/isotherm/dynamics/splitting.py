"""Turns a scheme word such as "BAODCDOAB", a sampler's `scheme`, into the moves of a step; flows.py says what each
letter does.

A letter that occurs m times runs h/m. The force is evaluated once a step, at the position where the step begins, so
a word is turned (cyclically) until it opens with its kick: BAODCDOAB closes one step and opens the next with the
same force, and its two half kicks are one. The sequence of positions is that of the word as written, seen from
another phase. C uses the covariance of that same evaluation.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

from isotherm.lib.types import Number

S = TypeVar("S")
Moves = tuple[tuple[str, float], ...]

MOVING = "AE"  # letters that change the position, after which the force would have to be evaluated again


def moves(word: str, letters: str) -> Moves:
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
    """One step: each letter's flow for its share of h, in order."""
    for letter, share in moves:
        state = flows[letter](state, share * h)
    return state


def _kick_first(word: str) -> str:
    """`word` turned so that all its kicks come before the position moves; refused if that cannot be."""
    for start in range(len(word)):
        turned = word[start:] + word[:start]
        if turned[0] == "B" and not set(turned[: turned.rindex("B")]) & set(MOVING):
            return turned
    raise ValueError(
        f"scheme {word!r} needs two force evaluations a step: the position moves between its B's; "
        "put them side by side or at the two ends"
    )
