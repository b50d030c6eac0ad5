"""`isotherm.report`: one HTML page about a run, the verdict first, then pictures with how to read them."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotherm.diagnostics.check import MomentErrors, Verdict, check, check_without_data, watched_draws
from isotherm.diagnostics.convergence import FEWEST_DRAWS, Convergence, convergence
from isotherm.diagnostics.verdict import STRICT, first_bad_steps, friction_law, sizes, temperature_law
from isotherm.lib.optional import require
from isotherm.lib.types import Batch, Params, Results
from isotherm.lib.version import __version__
from isotherm.posterior import Posterior
from isotherm.report import html, plots
from isotherm.report.html import Entry, Table
from isotherm.targets.user import with_defaults

WORST = 3  # parameters with a trace
TRACE = (
    "Value against time, one colour a chain: good chains lie on top of each other, do not drift and do not stay in one "
    "place."
)
RANKS = (
    "All draws put in order: {who} should have the same share of the low, middle and high ones, so lines should stay "
    "in the grey band (3 standard errors for this many effective draws); a slope or a hump means that they disagree."
)
AUTOCORRELATION = (
    "How much a draw still tells of the one so many draws later (black: mean of the chains): the sooner it is zero, "
    "the more each draw is worth."
)
TEMPERATURE = (
    "Means over stretches of the run, one colour a chain: dashed is what it should be, and the mean of the whole run "
    "(black) should lie in the grey band; above it, the chains are too hot."
)
FRICTION = (
    "Dashed is the friction A that was asked for, and the mean of the whole run (black) should lie in the grey band; "
    "above it, the thermostat takes out noise that the sampler does not know of."
)
SHIFT = (
    "How far the mean of the draws is from the posterior's, in posterior standard deviations, ± 2 standard errors: 0 "
    "(dashed) is right, grey is allowed, red is outside."
)
VARIANCE = (
    "Variance of the draws over the posterior's, ± 2 standard errors: 1 (dashed) is right, grey is allowed, red is "
    "outside; above 1 the draws are too wide."
)
FOREST = (
    "Half of the draws lie on the thick line, 90 % on the thin one, and a circle is the mean of one chain: circles far "
    "apart mean that chains disagree."
)
APART = "Each parameter is shown from its own mean and in its own standard deviations, as no one axis would show all."


class ShownDraws(NamedTuple):
    """The draws of chains that did not diverge, by (chain, draw, parameter), and what there is to say of each
    parameter; `order` has those that move, fewest effective draws first."""

    names: list[str]
    values: np.ndarray
    found: Convergence
    order: np.ndarray
    times: np.ndarray
    unit: str


def report(
    tree: Results,
    posterior: Posterior | None = None,
    data: Batch | None = None,
    path: str | os.PathLike[str] = "report.html",
    verdict: Verdict | None = None,
    *,
    init: Params | None = None,
    progress: bool = True,
) -> Path:
    """Write one HTML page about a run: whether to believe it, how it was made, and pictures of its draws.

    The page holds everything it shows. docs/guide/report.md says how to read each part.

    Args:
        tree: what `isotherm.sample`, `isotherm.resume` or `isotherm.fit` returned, or draws of another sampler in
            ArviZ's schema.
        posterior, data: those of the run, with which `isotherm.check` says how far mean, variance and tails are off;
            without them, only the run's own numbers are looked at.
        path: the file to write.
        verdict: what `isotherm.check` said, if it was asked before.
        init: parameters like those of the run, if they are not a nest of dicts and lists.
        progress: whether to show a bar (on a terminal only).

    Returns:
        The path of the page.
    """
    require("matplotlib", "plots", "a report")
    if posterior is not None:
        data = with_defaults(posterior, data)[1]
    if (posterior is None) != (data is None):
        missing = "data" if data is None else "posterior"
        raise ValueError(f"posterior and data must be given together, and {missing} is missing")
    if verdict is None and posterior is not None:
        verdict = check(tree, posterior, data, init=init, progress=progress)
    elif verdict is None:
        verdict = check_without_data(tree)
    return write(tree, verdict, path)


def write(
    tree: Results,
    verdict: Verdict,
    path: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    found: str = "",
    title: str | None = None,
) -> Path:
    """Write the page with a verdict; `names` replace those of parameters, `found` is HTML about what was found."""
    own_names, values = watched_draws(tree)
    shown = [(names or {}).get(name, name) for name in own_names]
    good, words = _good_chains(tree, values)
    parts = [_verdict(verdict, tree), found, _making(tree, len(shown), words)]
    if values.shape[1] < FEWEST_DRAWS or not good.any():
        why = "every chain diverged" if not good.any() else f"there are {values.shape[1]} draws a chain"
        parts.append(f"<h2>Pictures</h2><p>There are none: {escape(why)}.</p>")
    else:
        draws = _shown(tree, shown, values[good])
        parts += [_worst(draws), _thermostat(tree, draws, good), _moments(verdict.moments), _forest(draws)]
    name = tree.attrs.get("name")
    title = title or (f"Report of {name}" if name else "Report of a run")
    return html.write(Path(path), title, "\n".join(parts))


def _good_chains(tree: Results, values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return which chains did not diverge, and a sentence for each of the others."""
    steps = first_bad_steps(tree)
    first = np.full(len(values), -1) if steps is None else steps
    good = np.isfinite(values).all(axis=(1, 2)) & (first < 0)
    why = [f"diverged at step {step:,}" if step >= 0 else "has draws that are not finite" for step in first]
    return good, [f"Chain {chain} {why[chain]}; the pictures leave it out." for chain in np.flatnonzero(~good)]


def _shown(tree: Results, names: list[str], values: np.ndarray) -> ShownDraws:
    found = convergence(values)
    moves = np.ptp(values, axis=(0, 1)) > 0
    ess = np.where(moves, np.nan_to_num(found.least_ess), np.inf)
    order = np.argsort(ess, kind="stable")[: int(moves.sum())]
    times, unit = np.arange(values.shape[1]) + 1, "draw"
    if {"burn_in", "thin"} <= set(tree.attrs):
        times, unit = tree.attrs["burn_in"] + tree.attrs["thin"] * times, "step"
    return ShownDraws(names, values, found, order, times, unit)


def _verdict(verdict: Verdict, tree: Results) -> str:
    rows = [
        [
            Entry(line.name),
            Entry("ok", shade="good") if line.good else Entry("BAD", shade="bad"),
            *map(Entry, (line.found, line.bound, "" if line.good else line.advice)),
        ]
        for line in verdict.table
    ]
    table = html.table(Table("", ["", "verdict", "found", "bound", "what to change"], rows), "words")
    warnings = "".join(f"<li>{escape(each)}</li>" for each in str(tree.attrs.get("warnings", "")).splitlines() if each)
    warned = f"<p>The run itself warned:</p><ul>{warnings}</ul>" if warnings else ""
    cost = f" The check took {verdict.passes:.1f} passes over the data." if verdict.passes else ""
    not_checked = html.note(f"Not checked: {'; '.join(verdict.not_checked)}.{cost}")
    words = f"{verdict.summary[0].upper()}{verdict.summary[1:]}."
    summary = f'<p class="summary {"good" if verdict else "bad"}">{escape(words)}</p>'
    return f"<h2>Verdict</h2>{summary}{table}{not_checked}{warned}"


def _making(tree: Results, shown: int, diverged: Sequence[str]) -> str:
    """Return what made the draws, how many there are, and all attributes of the run."""
    attributes, counts, entries = tree.attrs, tree["posterior"].sizes, sum(sizes(tree))
    sampler = [f"sampler {attributes['sampler']},"] if "sampler" in attributes else []
    names = ("inference_library", "inference_library_version")
    library = sampler + [str(attributes[name]) for name in names if name in attributes]
    facts = [" ".join(library)] if library else []
    facts += [_count(counts["chain"], "chain"), f"{_count(counts['draw'], 'draw')} each"]
    facts.append(_count(entries, "parameter") + (f", of which {shown:,} were looked at" if shown < entries else ""))
    if {"batch_size", "population"} <= set(attributes):
        facts.append(f"batches of {attributes['batch_size']:,} of {attributes['population']:,} rows")
    if {"steps", "steps_done", "burn_in"} <= set(attributes):
        done, steps = attributes["steps_done"], attributes["steps"]
        of_all = "" if done == steps else f"{done:,} of "
        facts.append(f"{of_all}{steps:,} steps, the first {attributes['burn_in']:,} as burn-in")
    if attributes.get("interrupted"):
        diverged = [*diverged, "The run was interrupted: isotherm.resume goes on with it."]
    alarms = "".join(f'<p class="summary bad">{escape(sentence)}</p>' for sentence in diverged)
    texts = {str(name): f"{v:.6g}" if isinstance(v, float) else str(v) for name, v in attributes.items()}
    rows = [each for each in texts.items() if each[0] != "warnings"]
    table = html.texts(["", "value"], rows, "words")
    settings = f"<details><summary>all settings</summary>{table}</details>" if rows else ""
    written = html.note(f"Page written by isotherm {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.")
    return f"<h2>How it was made</h2><p>{escape('; '.join(facts))}.</p>{alarms}{settings}{written}"


def _worst(draws: ShownDraws) -> str:
    title = "<h2>The worst parameters</h2>"
    if not draws.order.size:
        return f"{title}<p>No parameter moves: every draw is the same.</p>"
    worst = [(draws.names[i], draws.values[..., i], float(draws.found.least_ess[i])) for i in draws.order[:WORST]]
    shown = ", ".join(f"{name} ({ess:.0f})" for name, _, ess in worst)
    total = _count(draws.values.shape[0] * draws.values.shape[1], "draw")
    ranks = RANKS.format(who="each chain" if len(draws.values) > 1 else "both halves of the chain")
    return "\n".join(
        [
            title,
            f"<p>Those with the fewest effective draws, of {total}: {escape(shown)}.</p>",
            html.pictures("Traces", [(n, plots.trace(n, x, draws.times, draws.unit)) for n, x, _ in worst], TRACE),
            html.pictures("Ranks", [(n, plots.ranks(n, x, ess)) for n, x, ess in worst], ranks),
            html.pictures("Autocorrelation", [(n, plots.autocorrelation(n, x)) for n, x, _ in worst], AUTOCORRELATION),
        ]
    )


def _thermostat(tree: Results, draws: ShownDraws, good: np.ndarray) -> str:
    if "sample_stats" not in tree.children:
        return ""
    stats, shown = tree["sample_stats"].to_dataset(), ""

    def over_time(name: str, values: np.ndarray, law: tuple[float, float], caption: str) -> str:
        return html.pictures("", [(name, plots.over_time(name, values, draws.times, draws.unit, *law))], caption)

    if "kinetic_temperature" in stats:
        values = stats["kinetic_temperature"].values[good]
        shown += over_time("kinetic temperature", values, temperature_law(tree, values, STRICT), TEMPERATURE)
    if (law := friction_law(tree, STRICT)) is not None:
        shown += over_time("friction", stats["friction"].values[good], law, FRICTION)
    return f'<h2>Temperature and friction</h2><div class="pairs">{shown}</div>' if shown else ""


def _moments(moments: MomentErrors | None) -> str:
    title = "<h2>Mean and variance against the posterior</h2>"
    if moments is None:
        return (
            f"{title}<p>Not checked: it takes the forces at the draws. In Python: "
            "<code>isotherm.report(tree, posterior, data)</code>.</p>"
        )
    names, found, tails, shifts, variances, kurtoses = moments
    shift = plots.against_level("mean: off by", names, found.shift, found.shift_error, 0, shifts)
    variance = plots.against_level("variance ratio", names, found.variance, found.variance_error, 1, variances)
    off = (found.shift, shifts), (found.variance - 1, variances), (tails.excess, kurtoses)
    means, wide, heavy = (int((abs(by) > allowed).sum()) for by, allowed in off)
    words = (
        f"Outside of what is allowed: {means} means, {wide} variances and {heavy} tails of "
        f"{_count(len(names), 'parameter')}; furthest off is the variance of "
        f"{names[int(np.argmax(abs(found.variance - 1) / variances))]}."
    )
    both = html.pictures("", [("mean", shift)], SHIFT) + html.pictures("", [("variance ratio", variance)], VARIANCE)
    return f'{title}<p>{escape(words)}</p><div class="pairs">{both}</div>'


def _forest(draws: ShownDraws) -> str:
    everything = len(draws.names) <= plots.FOREST_ROWS
    chosen = np.arange(len(draws.names)) if everything else draws.order[: plots.FOREST_ROWS]
    if not chosen.size:
        return ""
    names, values, found = [draws.names[i] for i in chosen], draws.values[..., chosen], draws.found
    png, apart = plots.forest(names, values)
    which = "" if everything else f"<p>The {len(chosen)} parameters with the fewest effective draws.</p>"
    flat = values.reshape(-1, len(chosen)).astype(np.float64)
    columns = zip(flat.mean(axis=0), flat.std(axis=0), *np.quantile(flat, [0.05, 0.95], axis=0), strict=True)
    rows = [
        [name, *(f"{value:.4g}" for value in numbers), f"{bulk:.0f}", f"{tail:.0f}", f"{r_hat:.3f}"]
        for name, numbers, bulk, tail, r_hat in zip(
            names, columns, found.ess_bulk[chosen], found.ess_tail[chosen], found.r_hat[chosen], strict=True
        )
    ]
    heads = ["", "mean", "s.d.", "5 %", "95 %", "effective draws", "in the tails", "R-hat"]
    picture = html.pictures("", [("intervals of parameters", png)], f"{FOREST} {APART}" if apart else FOREST)
    numbers = f"<details><summary>the numbers</summary>{html.texts(heads, rows, 'numbers')}</details>"
    return f"<h2>Parameters</h2>{which}{picture}{numbers}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
