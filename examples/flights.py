"""Which airports make a flight late? 3,000,000 flights, 490 parameters, each with its uncertainty.

    python examples/flights.py [--data DIR] [--rows N] [--picture FILE]

A logistic regression of whether a flight was more than 15 minutes late on its distance, the hour and weekday it left,
and the airports it went from and to, with a N(0, 0.5²) prior on every parameter. Some airports have more than 100,000
flights and others a handful, so their effects are known to very different precision: the table and the picture show it.

Without --data the file (13 MB) is looked for where all data sets are, and downloaded if it is not there. Reading it
needs pyarrow, the picture matplotlib: pip install 'isotherm[paper]'.
"""

import argparse
import time
from typing import Any, NamedTuple

import arviz_stats
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap, LogNorm

import isotherm

LEVELS = ("hour", "weekday", "origin", "destination")
SCALE = 0.5  # of the prior
ENDS = 5  # airports at either end of a table
RAREST, BUSIEST = 3, 2  # airports that the picture names, beside the first and the last
WIDTH = 0.115  # of a name, over that of the picture


def log_likelihood(params: Any, flight: Any) -> jax.Array:
    """Of one flight."""
    eta = params["intercept"] + params["log_distance"] * flight["log_distance"]
    for level in LEVELS:
        eta = eta + params[level][flight[level]]
    return jax.nn.log_sigmoid((2 * flight["late"] - 1) * eta)


def log_prior(params: Any) -> jax.Array:
    return -0.5 * sum(jnp.sum((leaf / SCALE) ** 2) for leaf in jax.tree.leaves(params))


class Effects(NamedTuple):
    """By airport, from the least to the greatest: its code, how many flights it has, and by what it multiplies the
    odds of being late, compared with the average flight: posterior mean (of the logarithm) and 95 % interval."""

    codes: np.ndarray
    flights: np.ndarray
    odds: np.ndarray
    low: np.ndarray
    high: np.ndarray


def effects(draws: np.ndarray, column: np.ndarray, codes: tuple[str, ...]) -> Effects:
    """Of draws (chain, draw, airport). Airports without a flight are left out."""
    flights = np.bincount(column, minlength=len(codes))
    each = draws.reshape(-1, len(codes)).astype(np.float64)
    each -= (each @ flights / flights.sum())[:, None]  # the average flight's
    low, high = np.quantile(each, [0.025, 0.975], axis=0)
    order = np.argsort(each.mean(axis=0))
    order = order[flights[order] > 0]
    odds = (np.exp(values[order]) for values in (each.mean(axis=0), low, high))
    return Effects(np.array(codes)[order], flights[order], *odds)


def table(title: str, found: Effects) -> str:
    """The greatest and the least effects."""
    lines = [f"{title:24}  flights   odds   95 % interval"]
    chosen = np.arange(len(found.codes))[::-1]
    if len(chosen) > 2 * ENDS:
        chosen = [*chosen[:ENDS], None, *chosen[-ENDS:]]
    for i in chosen:
        row = "  …"
        if i is not None:
            row = f"  {found.codes[i]:22}  {found.flights[i]:7,}  {found.odds[i]:5.2f}"
            row += f"   {found.low[i]:.2f} to {found.high[i]:.2f}"
        lines.append(row)
    return "\n".join(lines)


def draw(found: Effects, total: int, path: str) -> None:
    """All airports in order of their effects, coloured by how many flights they have; some with their names."""
    figure, axes = plt.subplots(figsize=(10.5, 5.4), dpi=150, layout="constrained")
    x, norm = np.arange(len(found.codes)), LogNorm(1, found.flights.max() + 1)
    shades = ListedColormap(plt.get_cmap("plasma")(np.linspace(0.88, 0, 256)))  # its yellow is too light for lines
    points = axes.scatter(x, found.odds, c=found.flights, norm=norm, cmap=shades, s=9, zorder=3)
    axes.vlines(x, found.low, found.high, colors=points.to_rgba(found.flights), linewidth=1.6)
    axes.axhline(1, color="0.6", linewidth=0.8, zorder=0)
    by_flights = np.argsort(found.flights)
    label(axes, found, {*by_flights[-BUSIEST:], x[-1]}, found.high, 1.15 * found.high.max())
    label(axes, found, {*by_flights[:RAREST], x[0]}, found.low, found.low.min() / 1.15)
    axes.set_yscale("log")
    axes.set_yticks(ticks := [0.5, 1, 2], [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks([])
    axes.set_xlim(-0.06 * len(x), 1.06 * len(x))
    axes.set_ylim(found.low.min() / 1.45, 1.45 * found.high.max())  # with room for the names
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xlabel(f"{len(x)} airports of departure, in the order of their posterior means")
    axes.set_ylabel("odds of being late, over the average flight's")
    axes.set_title("The fewer flights an airport has, the wider its interval", loc="left", fontsize=13, pad=22)
    subtitle = f"posterior means and 95 % intervals, from {total:,} flights"
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, color="0.35")
    figure.colorbar(points, label="flights from the airport", format="{x:,.0f}", shrink=0.7, aspect=30, pad=0.0)
    figure.savefig(path)
    plt.close(figure)


def label(axes: plt.Axes, found: Effects, chosen: set[int], ends: np.ndarray, height: float) -> None:
    """Names in a row at `height`, moved apart where they would overlap, with a line to the ends of their intervals."""
    airports, upwards = sorted(chosen), height > 1
    wide = WIDTH * len(found.codes)
    places = [float(i) for i in airports]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + wide)
    for k in reversed(range(len(places))):  # back from the right edge
        most = len(found.codes) - 1 if k == len(places) - 1 else places[k + 1] - wide
        places[k] = min(places[k], most)
    for i, place in zip(airports, places, strict=True):
        count = f"{found.flights[i]:,} flights" if found.flights[i] > 1 else "1 flight"
        axes.annotate(
            f"{found.codes[i]}\n{count}",
            (i, ends[i]),
            (place, height),
            ha="center",
            va="bottom" if upwards else "top",
            fontsize=8,
            linespacing=1.1,
            arrowprops={"arrowstyle": "-", "color": "0.55", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1},
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="DIR", help="the folder that has flights-3m.parquet, or its folder flights")
    parser.add_argument("--rows", metavar="N", type=int, help="so many flights, drawn at random, instead of all")
    parser.add_argument("--picture", metavar="FILE", default="flights.png", help="where the picture goes")
    options = parser.parse_args(arguments)

    data, origins, destinations = isotherm.datasets.flights.load(options.data)
    if options.rows is not None:
        kept = np.sort(np.random.default_rng(0).choice(len(data["late"]), options.rows, replace=False))
        data = {name: column[kept] for name, column in data.items()}
    sizes = {"intercept": (), "log_distance": (), "hour": 24, "weekday": 7}
    sizes |= {"origin": len(origins), "destination": len(destinations)}
    init = {name: jnp.zeros(size) for name, size in sizes.items()}

    began = time.perf_counter()
    tree = isotherm.fit(isotherm.Posterior(log_likelihood, log_prior), data, init)
    seconds = time.perf_counter() - began

    total, parameters, said = len(data["late"]), sum(leaf.size for leaf in init.values()), tree.attrs
    sampling = f"{said['sampling_time']:.0f} of them for sampling"
    print(f"{total:,} flights, {parameters} parameters: {seconds:.0f} seconds, {sampling}")
    print(f"{said['fit_method']}, batches of {said['batch_size']:,}: {said['fit_reason']}")
    ess = [arviz_stats.ess(tree.posterior.dataset, method=method) for method in ("bulk", "tail")]
    bulk, tail = (min(float(each.min()) for each in of.values()) for of in ess)
    draws = said["chains"] * tree.posterior.sizes["draw"]
    print(f"{draws:,} draws; effective draws of the worst parameter: {bulk:.0f} in the bulk, {tail:.0f} in the tails")
    found = effects(tree.posterior.origin.values, data["origin"], origins)
    print("", table("from", found), "", sep="\n")
    print(table("to", effects(tree.posterior.destination.values, data["destination"], destinations)))
    draw(found, total, options.picture)
    print(f"\nthe picture is in {options.picture}")


if __name__ == "__main__":
    main()
