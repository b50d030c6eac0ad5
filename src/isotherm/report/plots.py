"""Pictures of a run: arrays and names in, a PNG out. How figures look everywhere is in STYLE."""

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from isotherm.lib.optional import extra

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.dpi": 120,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]  # of chains, in turn
# Names are not read as formulas.
OF_RUN = STYLE | {"text.parse_math": False, "axes.prop_cycle": f"cycler('color', {COLOURS})"}
GOOD, BAD, LEVEL = "#0072B2", "#C03A1E", "#222222"
SIZE = (4.2, 2.4)  # inches: legible on a telephone, where a picture is as wide as the screen
ROW_HEIGHT = 0.19  # inches for each parameter, where every one has a row
NAME_LENGTH = 28  # characters of a name
FOREST_ROWS = 50
TRACE_POINTS = 1000  # of a curve
RANK_BINS = 20  # of ranks, at most
STRETCHES = 50  # of a run, at most
LOG_RATIO = 4.0  # a ratio from which the axis is logarithmic
NARROW_SHARE = 0.04  # of the width of an axis: an interval that is narrower cannot be seen on it


def trace(name: str, draws: np.ndarray, times: np.ndarray, unit: str) -> bytes:
    """Plot one parameter by (chain, draw); `times` of the draws, in steps or what `unit` says."""
    figure, axes = _figure(short(name), unit, "value")
    every = max(1, -(-draws.shape[1] // TRACE_POINTS))
    axes.plot(times[::every], draws[:, ::every].T, linewidth=0.6, alpha=0.8)
    return _png(figure)


def ranks(name: str, draws: np.ndarray, ess: float) -> bytes:
    """Plot how often each chain is in each bin of the ranks of all draws, relative to how often it would be if chains
    agreed; then most bars are in the band. One chain is compared with itself: its halves."""
    from scipy.stats import rankdata

    if len(draws) == 1:
        length = draws.shape[1] // 2
        draws = np.stack([draws[0, :length], draws[0, -length:]])
    figure, axes = _figure(short(name), "rank among all draws", "relative share")
    order = (rankdata(draws).reshape(draws.shape) - 0.5) / draws.size
    bins = int(np.clip(draws.shape[1] // 10, 2, RANK_BINS))
    edges = np.linspace(0, 1, bins + 1)
    for values in order:
        axes.stairs(np.histogram(values, edges)[0] * bins / draws.shape[1], edges, linewidth=1.1)
    band = 3 * math.sqrt((bins - 1) * (1 - 1 / len(draws)) / max(ess / len(draws), 1))
    axes.axhspan(max(0, 1 - band), 1 + band, color="0.5", alpha=0.15, linewidth=0)
    axes.axhline(1, color=LEVEL, linewidth=1, linestyle="--")
    axes.set_ylim(0, max(axes.get_ylim()[1], min(1 + band, 4)))
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["lowest", "middle", "highest"])
    return _png(figure)


def autocorrelation(name: str, draws: np.ndarray) -> bytes:
    """Plot that of one parameter by (chain, draw), up to the lag where little is left."""
    from arviz_stats.base import array_stats

    figure, axes = _figure(short(name), "lag, in draws", "correlation")
    curves = np.asarray(array_stats.autocorr(np.asarray(draws, np.float64), axis=1))
    mean = curves.mean(axis=0)
    small = np.flatnonzero(mean < 0.05)
    most = draws.shape[1] // 2
    lags = min(most, max(20, 3 * int(small[0] if small.size else most)))
    axes.plot(curves[:, : lags + 1].T, linewidth=0.6, alpha=0.6)
    axes.plot(mean[: lags + 1], color=LEVEL, linewidth=1.6)
    axes.axhline(0, color=LEVEL, linewidth=1, linestyle="--")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlim=(0, max(1, lags)), ylim=(min(-0.2, float(np.nanmin(mean[: lags + 1]))), 1.05))
    return _png(figure)


def over_time(name: str, values: np.ndarray, times: np.ndarray, unit: str, level: float, allowed: float) -> bytes:
    """Plot a statistic by (chain, draw), averaged over stretches; where its mean should be, and its bound."""
    stretches = values.shape[1] // -(-values.shape[1] // STRETCHES)
    means = [part.mean(axis=1) for part in np.array_split(values, stretches, axis=1)]
    middles = [part.mean() for part in np.array_split(times, stretches)]
    figure, axes = _figure(name, unit, "mean of each stretch")
    axes.axhspan(level - allowed, level + allowed, color="0.5", alpha=0.15, linewidth=0)
    axes.plot(middles, means, linewidth=0.8, alpha=0.8, marker="." if stretches < 5 else None)
    axes.axhline(level, color=LEVEL, linewidth=1, linestyle="--")
    axes.axhline(float(values.mean()), color=LEVEL, linewidth=1.6)
    return _png(figure)


def against_level(
    title: str, names: Sequence[str], values: np.ndarray, errors: np.ndarray, level: float, allowed: np.ndarray
) -> bytes:
    """Plot a number of each parameter with ± 2 standard errors and its bound; in rows with names if there are few."""
    few = len(names) <= FOREST_ROWS
    places = np.arange(len(names), dtype=float)
    bad = ~(abs(values - level) <= allowed)
    figure, axes = _figure(title, "" if few else "parameter, in the order of the draws", "", len(names) if few else 0)
    band = {"color": "0.5", "alpha": 0.15, "linewidth": 0, "step": "mid"}
    ends = np.concatenate([[places[0] - 0.5], places, [places[-1] + 0.5]])
    low, high = (np.pad(bound, 1, "edge") for bound in (level - allowed, level + allowed))
    (axes.fill_betweenx if few else axes.fill_between)(ends, low, high, **band)
    (axes.axvline if few else axes.axhline)(level, color=LEVEL, linewidth=1, linestyle="--")
    for which, colour in ((~bad, GOOD), (bad, BAD)):
        x, y, error = places[which], values[which], 2 * errors[which]
        look = {"color": colour, "fmt": "o", "markersize": 3.5 if few else 2, "elinewidth": 1 if few else 0.4}
        axes.errorbar(*((y, x) if few else (x, y)), **{"xerr" if few else "yerr": error}, **look)
    if level > 0 and (values > LOG_RATIO * level).any():
        scale = {"value": "log"} if (values > 0).all() else {"value": "symlog", "linthresh": level}
        (axes.set_xscale if few else axes.set_yscale)(**scale)
        (axes.xaxis if few else axes.yaxis).set_major_formatter("{x:g}")  # instead of powers, which are formulas
    if few:
        _rows(axes, names)
    else:
        axes.set_xlim(ends[0], ends[-1])
    return _png(figure)


def forest(names: Sequence[str], draws: np.ndarray) -> tuple[bytes, bool]:
    """Plot intervals of parameters by (chain, draw, parameter), 50 % thick, 90 % thin, and the mean of each chain;
    return the picture, and whether each is standardised, as one axis cannot show all."""
    flat = draws.reshape(-1, draws.shape[2]).astype(np.float64)
    quantiles, means = np.quantile(flat, [0.05, 0.25, 0.75, 0.95], axis=0), draws.mean(axis=1, dtype=np.float64)
    spread, width = flat.std(axis=0), float(np.ptp(quantiles))
    moving = spread > 0
    apart = bool(moving.any() and ((quantiles[3] - quantiles[0])[moving] < NARROW_SHARE * width).any())
    if apart:
        middle, scale = flat.mean(axis=0), np.where(moving, spread, 1.0)
        quantiles, means = (quantiles - middle) / scale, (means - middle) / scale
    figure, axes = _figure("", "from its mean, in its standard deviations" if apart else "value", "", len(names))
    places = np.arange(len(names))
    axes.hlines(places, quantiles[0], quantiles[3], color=GOOD, linewidth=1)
    axes.hlines(places, quantiles[1], quantiles[2], color=GOOD, linewidth=3)
    for values in means:
        axes.plot(values, places, "o", color="white", markeredgecolor=LEVEL, markersize=3.5, markeredgewidth=0.8)
    if not apart and (quantiles[0] < 0).any() and (quantiles[3] > 0).any():
        axes.axvline(0, color=LEVEL, linewidth=1, linestyle="--")
    _rows(axes, names)
    return _png(figure), apart


def reliability(predicted: np.ndarray, came: np.ndarray, counts: np.ndarray) -> bytes:
    """Plot the observed frequency against the predicted probability, ± 2 standard errors."""
    figure, axes = _figure("", "predicted probability", "how often it came")
    errors = 2 * np.sqrt(np.maximum(came * (1 - came), 0.25 / counts) / counts)
    axes.plot([0, 1], [0, 1], color=LEVEL, linewidth=1, linestyle="--")
    axes.errorbar(predicted, came, yerr=errors, color=GOOD, fmt="o-", markersize=3.5, elinewidth=1, linewidth=0.8)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return _png(figure)


def short(name: str) -> str:
    """Return a long name without its middle, as beginning and end tell names apart."""
    name = " ".join(name.split())
    half = (NAME_LENGTH - 1) // 2
    return name if len(name) <= NAME_LENGTH else f"{name[:half]}…{name[-half:]}"


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(np.arange(len(names)), [short(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first name above
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(axis="y", visible=False)


def _figure(title: str, xlabel: str, ylabel: str, rows: int = 0) -> tuple[Any, Any]:
    """Make one set of axes; with `rows` of names it is as high as they need."""
    with extra("plots", "a picture"):
        import matplotlib
        from matplotlib.figure import Figure

    with matplotlib.rc_context(OF_RUN):
        height = max(1.3, ROW_HEIGHT * rows + 0.8) if rows else SIZE[1]
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        return figure, figure.subplots(subplot_kw={"title": title, "xlabel": xlabel, "ylabel": ylabel})


def _png(figure: Any) -> bytes:
    import matplotlib

    content = io.BytesIO()
    with matplotlib.rc_context(OF_RUN), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter of a name that the font has not
        figure.savefig(content, format="png", dpi=144, metadata={"Software": None})
    return content.getvalue()
