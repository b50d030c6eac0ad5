"""`isotherm.report`: one HTML page about a run, the verdict first, then pictures with how to read them."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotherm.diagnostics.check import Moments, Verdict, check, check_without_data, watched_draws
from isotherm.diagnostics.convergence import FEWEST_DRAWS, Convergence, convergence
from isotherm.diagnostics.verdict import STRICT, first_bad_steps, friction_law, has_friction, sizes, temperature_law
from isotherm.lib.optional import require
from isotherm.lib.types import Batch, Params, Results
from isotherm.lib.version import __version__
from isotherm.posterior import Posterior
from isotherm.report import html, plots
from isotherm.report.html import Entry, Table
from isotherm.targets.target import with_defaults

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


class Draws(NamedTuple):
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
    """Write the page with a verdict. `names` replace those of parameters, and `found` is HTML about what the run
    found, for which a run of a table has words."""
    own_names, values = watched_draws(tree)
    shown = [(names or {}).get(name, name) for name in own_names]
    good, words = _good_chains(tree, values)
    parts = [_verdict(verdict, tree), found, _making(tree, len(shown), words)]
    if values.shape[1] < FEWEST_DRAWS or not good.any():
        why = "every chain diverged" if not good.any() else f"there are {values.shape[1]} draws a chain"
        parts.append(f"<h2>Pictures</h2><p>There are none: {escape(why)}.</p>")
    else:
        draws = _draws(tree, shown, values[good])
        parts += [_worst(draws), _thermostat(tree, draws, good), _moments(verdict.moments), _forest(draws)]
    name = tree.attrs.get("name")
    title = title or (f"Report of {name}" if name else "Report of a run")
    return html.write(Path(path), title, "\n".join(parts))


def _good_chains(tree: Results, values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Which chains did not diverge, and a sentence for each of the others."""
    good, words = np.isfinite(values).all(axis=(1, 2)), []
    steps = first_bad_steps(tree)
    first = np.full(len(good), -1) if steps is None else steps
    for chain in np.flatnonzero(~good | (first >= 0)):
        when = f"diverged at step {first[chain]:,}" if first[chain] >= 0 else "has draws that are not finite"
        words.append(f"Chain {chain} {when}; the pictures leave it out.")
    return good & (first < 0), words


def _draws(tree: Results, names: list[str], values: np.ndarray) -> Draws:
    found = convergence(values)
    moves = np.ptp(values, axis=(0, 1)) > 0
    ess = np.where(moves, np.nan_to_num(found.least_ess), np.inf)
    order = np.argsort(ess, kind="stable")[: int(moves.sum())]
    numbers = np.arange(values.shape[1]) + 1
    if {"burn_in", "thin"} <= set(tree.attrs):
        return Draws(names, values, found, order, tree.attrs["burn_in"] + tree.attrs["thin"] * numbers, "step")
    return Draws(names, values, found, order, numbers, "draw")


def _verdict(verdict: Verdict, tree: Results) -> str:
    rows = [
        [
            Entry(line.name),
            Entry("ok" if line.good else "BAD", shade="good" if line.good else "bad"),
            Entry(line.found),
            Entry(line.bound),
            Entry("" if line.good else line.advice),
        ]
        for line in verdict.table
    ]
    table = Table("", ["", "verdict", "found", "bound", "what to change"], rows)
    said = [sentence for sentence in str(tree.attrs.get("warnings", "")).splitlines() if sentence]
    warned = f"<p>The run itself warned:</p><ul>{''.join(f'<li>{escape(s)}</li>' for s in said)}</ul>" if said else ""
    cost = f" The check took {verdict.passes:.1f} passes over the data." if verdict.passes else ""
    not_checked = f"Not checked: {'; '.join(verdict.not_checked)}.{cost}"
    shade = "good" if verdict else "bad"
    summary = f"{verdict.summary[0].upper()}{verdict.summary[1:]}."
    return (
        f'<h2>Verdict</h2><p class="summary {shade}">{escape(summary)}</p>{html.table(table, "words")}'
        f"{html.note(not_checked)}{warned}"
    )


def _making(tree: Results, shown: int, diverged: Sequence[str]) -> str:
    attributes, counts = tree.attrs, tree["posterior"].sizes
    entries = sum(sizes(tree))
    facts = [
        _count(counts["chain"], "chain"),
        f"{_count(counts['draw'], 'draw')} each",
        _count(entries, "parameter") + (f", of which {shown:,} were looked at" if shown < entries else ""),
    ]
    library = [
        str(attributes[name]) for name in ("inference_library", "inference_library_version") if name in attributes
    ]
    if "sampler" in attributes:
        library.insert(0, f"sampler {attributes['sampler']},")
    if library:
        facts.insert(0, " ".join(library))
    if {"batch_size", "population"} <= set(attributes):
        facts.append(f"batches of {attributes['batch_size']:,} of {attributes['population']:,} rows")
    if {"steps", "steps_done", "burn_in"} <= set(attributes):
        done, steps = attributes["steps_done"], attributes["steps"]
        all_done = f"{steps:,} steps" if done == steps else f"{done:,} of {steps:,} steps"
        facts.append(f"{all_done}, the first {attributes['burn_in']:,} as burn-in")
    if attributes.get("interrupted"):
        diverged = [*diverged, "The run was interrupted: isotherm.resume goes on with it."]
    rows = [[Entry(str(name)), Entry(_value(value))] for name, value in attributes.items() if name != "warnings"]
    table = html.table(Table("", ["", "value"], rows), "words")
    alarms = "".join(f'<p class="summary bad">{escape(sentence)}</p>' for sentence in diverged)
    written = f"Page written by isotherm {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    details = f"<details><summary>all settings</summary>{table}</details>" if rows else ""
    return f"<h2>How it was made</h2><p>{escape('; '.join(facts))}.</p>{alarms}{details}{html.note(written)}"


def _worst(draws: Draws) -> str:
    if not draws.order.size:
        return "<h2>The worst parameters</h2><p>No parameter moves: every draw is the same.</p>"
    worst = [(draws.names[i], draws.values[..., i], float(draws.found.least_ess[i])) for i in draws.order[:WORST]]
    shown = ", ".join(f"{name} ({ess:.0f})" for name, _, ess in worst)
    total = _count(draws.values.shape[0] * draws.values.shape[1], "draw")
    who = "each chain" if len(draws.values) > 1 else "both halves of the chain"
    return "\n".join(
        [
            "<h2>The worst parameters</h2>",
            f"<p>Those with the fewest effective draws, of {total}: {escape(shown)}.</p>",
            _pictures("Traces", [(n, plots.trace(n, x, draws.times, draws.unit)) for n, x, _ in worst], TRACE),
            _pictures("Ranks", [(n, plots.ranks(n, x, ess)) for n, x, ess in worst], RANKS.format(who=who)),
            _pictures("Autocorrelation", [(n, plots.autocorrelation(n, x)) for n, x, _ in worst], AUTOCORRELATION),
        ]
    )


def _thermostat(tree: Results, draws: Draws, good: np.ndarray) -> str:
    if "sample_stats" not in tree.children:
        return ""
    stats, pictures = tree["sample_stats"].to_dataset(), []
    if "kinetic_temperature" in stats:
        values = stats["kinetic_temperature"].values[good]
        law = temperature_law(tree, values, STRICT)
        png = plots.over_time("kinetic temperature", values, draws.times, draws.unit, *law)
        pictures.append(_pictures("", [("kinetic temperature", png)], TEMPERATURE))
    if has_friction(tree):
        values = stats["friction"].values[good]
        law = friction_law(tree, STRICT)
        png = plots.over_time("friction", values, draws.times, draws.unit, *law)
        pictures.append(_pictures("", [("friction", png)], FRICTION))
    return f'<h2>Temperature and friction</h2><div class="pairs">{"".join(pictures)}</div>' if pictures else ""


def _moments(moments: Moments | None) -> str:
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
    bad = [int((abs(by) > allowed).sum()) for by, allowed in off]
    worst = names[int(np.argmax(abs(found.variance - 1) / variances))]
    words = (
        f"Outside of what is allowed: {bad[0]} means, {bad[1]} variances and {bad[2]} tails of "
        f"{_count(len(names), 'parameter')}"
    )
    pictures = _pictures("", [("mean", shift)], SHIFT) + _pictures("", [("variance ratio", variance)], VARIANCE)
    words = f"{words}; furthest off is the variance of {worst}."
    return f'{title}<p>{escape(words)}</p><div class="pairs">{pictures}</div>'


def _forest(draws: Draws) -> str:
    everything = len(draws.names) <= plots.MOST_ROWS
    chosen = np.arange(len(draws.names)) if everything else draws.order[: plots.MOST_ROWS]
    if not chosen.size:
        return ""
    names, values, found = [draws.names[i] for i in chosen], draws.values[..., chosen], draws.found
    png, apart = plots.forest(names, values)
    which = "" if everything else f"<p>The {len(chosen)} parameters with the fewest effective draws.</p>"
    flat = values.reshape(-1, len(chosen)).astype(np.float64)
    columns = [flat.mean(axis=0), flat.std(axis=0), *np.quantile(flat, [0.05, 0.95], axis=0)]
    rows = [
        [
            Entry(name),
            *(Entry(f"{column[place]:.4g}") for column in columns),
            *(Entry(f"{number[i]:.0f}") for number in (found.ess_bulk, found.ess_tail)),
            Entry(f"{found.r_hat[i]:.3f}"),
        ]
        for place, (name, i) in enumerate(zip(names, chosen, strict=True))
    ]
    heads = ["", "mean", "s.d.", "5 %", "95 %", "effective draws", "in the tails", "R-hat"]
    caption = f"{FOREST} {APART}" if apart else FOREST
    return (
        f"<h2>Parameters</h2>{which}{_pictures('', [('intervals of parameters', png)], caption)}"
        f"<details><summary>the numbers</summary>{html.table(Table('', heads, rows), 'numbers')}</details>"
    )


def _pictures(title: str, pictures: Sequence[tuple[str, bytes]], caption: str) -> str:
    """Pictures side by side, or one below the other on narrow screens, with one caption."""
    images = "".join(html.image(png, f"{title} {name}".strip()) for name, png in pictures)
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'{head}<figure><div class="side-by-side">{images}</div><figcaption>{escape(caption)}</figcaption></figure>'


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
