"""A row of the benchmark's tables: what was measured, the mark it is held to, what was found."""

from typing import NamedTuple

import numpy as np

from timing import Ratio


class Row(NamedTuple):
    what: str
    mark: str
    found: str
    met: bool | None = None
    value: float | None = None

    def line(self) -> str:
        met = {True: "yes", False: "no", None: ""}[self.met]
        return f"| {self.what} | {self.mark} | {self.found} | {met} |"


def at_most(what: str, mark: float, found: Ratio) -> Row:
    return Row(what, f"≤ {mark:g}", str(found), found.median <= mark, found.median)


def at_least(what: str, mark: float, found: Ratio) -> Row:
    return Row(what, f"≥ {mark:g}", str(found), found.median >= mark, found.median)


def microseconds(what: str, taken: np.ndarray, steps: int) -> Row:
    turn, processor = 1e6 * taken.T / steps
    low, median, high = np.quantile(turn, [0.25, 0.5, 0.75])
    said = f"{median:.3g} µs ({low:.3g}–{high:.3g}), processor {np.median(processor):.3g} µs"
    return Row(what, "", said, None, float(median))
