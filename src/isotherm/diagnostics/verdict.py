"""What a run's own numbers say against it: chains that differ, too few effective draws, a temperature or a friction
that is off. They cost nothing but the draws, and cannot see every bias (`isotherm.check` can)."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from isotherm.diagnostics.convergence import FEWEST_DRAWS, R_HAT, Convergence, convergence, standard_errors, watched
from isotherm.lib.types import Results
from isotherm.posterior import UNCONSTRAINED
from isotherm.targets.parameters import entry

KRYLOV_ERROR = 0.01  # the estimated error of a matrix exponential, relative to the vector it acts on
WARNING_ENTRIES = 256  # entries of the parameters that a warning is based on,
WARNING_DRAWS = 4000  # and draws of a chain
FALSE_ALARMS = 0.01  # how often one parameter of all may be further off by chance


class VerdictWarning(RuntimeWarning):
    """A run should not be believed as it is."""


class Bounds(NamedTuple):
    """What is good enough."""

    r_hat: float
    ess: float
    temperature: float  # by how much the kinetic temperature may be off, relatively, beside 3 standard errors
    friction: float  # by how much ξ may differ from A, beside 5 of its standard deviations


STRICT = Bounds(R_HAT, 400, 0.05, 1.0)  # for a verdict
LENIENT = Bounds(1.05, 100, 0.1, 2.0)  # for the warnings that a run gives unasked


class Line(NamedTuple):
    """One thing that was looked at: what was found, the bound, and what to change if it is bad."""

    name: str
    good: bool
    found: str
    bound: str
    advice: str = ""

    def __str__(self) -> str:
        words = f"{'ok ' if self.good else 'BAD'}  {self.name}: {self.found} (bound: {self.bound})"
        return words if self.good else f"{words}\n     {self.advice}"

    @property
    def sentence(self) -> str:
        return f"{self.name} {self.found} (bound: {self.bound}): {self.advice}"


def as_sampled(tree: Results) -> Results:
    """Return the results with the parameters that were sampled, where `posterior` has what a model made of them."""
    if UNCONSTRAINED not in tree.children:
        return tree
    sampled = tree.copy()
    sampled["posterior"] = tree[UNCONSTRAINED].copy()
    del sampled[UNCONSTRAINED]
    return sampled


def first_bad_steps(tree: Results) -> np.ndarray | None:
    """Return the first step after which each chain was not finite, −1 if none; None where that is not recorded."""
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
    return stats["first_bad_step"].values if "first_bad_step" in stats else None


def good_chains(tree: Results) -> np.ndarray:
    """Return for each chain whether it stayed finite, as far as that is recorded."""
    steps = first_bad_steps(tree)
    return np.ones(tree["posterior"].sizes["chain"], bool) if steps is None else steps < 0


def doubts(tree: Results, missing: str | None = None) -> Iterator[str]:
    """Yield a sentence for each number of a run that is off; `missing` is what a run with a goal lacks, "" if nothing,
    and stands for R-hat and effective draws."""
    words = [missing] if missing else []
    names, draws = entries(tree, watched(sizes(tree), WARNING_ENTRIES, WARNING_ENTRIES), WARNING_DRAWS)
    if draws.shape[1] >= FEWEST_DRAWS and np.isfinite(draws).all():
        lines = [*(converged(draws, names, LENIENT) if missing is None else []), *statistics(tree, LENIENT)]
        words += [line.sentence for line in lines if not line.good]
    yield from (f"do not rely on this run yet: {each}" for each in words)


def shortfall(tree: Results, found: Convergence, ess: float) -> str:
    """Return in words what the parameters that a goal watches lack of `ess` effective draws and R-hat."""
    words, chosen = [], watched(sizes(tree)).tolist()
    if np.nanmin(found.least_ess, initial=np.inf) < ess:
        worst = int(np.nanargmin(found.least_ess))
        name = entry_of(tree, chosen[worst])
        words.append(f"{found.least_ess[worst]:.0f} effective draws of {name}, where {ess:.0f} were asked for")
    if np.nanmax(found.r_hat, initial=1) > R_HAT:
        worst = int(np.nanargmax(found.r_hat))
        words.append(f"R-hat {found.r_hat[worst]:.3f} of {entry_of(tree, chosen[worst])}, where {R_HAT} is the bound")
    return " and ".join(words)


def sizes(tree: Results) -> list[int]:
    """Return the number of entries of each parameter."""
    return [math.prod(array.shape[2:]) for array in tree["posterior"].to_dataset().data_vars.values()]


def entries(tree: Results, chosen: np.ndarray, most_draws: int | None = None) -> tuple[list[str], np.ndarray]:
    """Return names and draws by (chain, draw, entry) of the `chosen` entries; every k-th draw beyond `most_draws`."""
    names, parts, begin = list[str](), [], 0
    for (name, array), size in zip(tree["posterior"].to_dataset().data_vars.items(), sizes(tree), strict=True):
        here = chosen[(chosen >= begin) & (chosen < begin + size)] - begin
        begin += size
        every = 1 if most_draws is None else max(1, -(-array.shape[1] // most_draws))
        names += [entry(str(name), array.shape[2:], i) for i in here]
        if here.size:
            parts.append(array[:, ::every].values.reshape(array.shape[0], -1, size)[..., here])
    return names, np.concatenate(parts, axis=2)


def entry_of(tree: Results, index: int) -> str:
    """Return what a user calls an entry of the flat parameters."""
    return entries(tree, np.array([index]), 1)[0][0]


def converged(draws: np.ndarray, names: list[str], bounds: Bounds) -> list[Line]:
    """Return the lines of R-hat and effective draws, of draws by (chain, draw, entry)."""
    if draws.shape[1] < FEWEST_DRAWS:
        return [Line("effective draws", False, f"{draws.shape[1]} draws", f"at least {bounds.ess:g}", "run longer")]
    found = convergence(draws)
    moves = (draws != draws[:1, :1]).any(axis=(0, 1))  # a NaN is never the same; what never moves has no numbers
    ess = np.where(moves, np.nan_to_num(found.least_ess), np.inf)
    r_hat = np.where(moves, np.nan_to_num(found.r_hat, nan=np.inf, posinf=np.inf), 1.0)
    fewest, largest = int(np.argmin(ess)), int(np.argmax(r_hat))
    allowed = max(bounds.r_hat, r_hat_by_chance(*draws.shape[::2]))
    advice = "run longer, or drop more as burn-in; if chains stay apart, there may be several modes"
    worst = f"{r_hat[largest]:.3f}, largest for {names[largest]}"
    least = f"{ess[fewest]:.0f}, fewest for {names[fewest]}"
    return [
        Line("R-hat", bool(r_hat[largest] <= allowed), worst, f"{allowed:.4g}", advice),
        Line("effective draws", bool(ess[fewest] >= bounds.ess), least, f"at least {bounds.ess:g}", "run longer"),
    ]


def r_hat_by_chance(chains: int, parameters: int) -> float:
    """Return the bound that the largest R-hat of `parameters` exceeds in a share FALSE_ALARMS of runs that are right.

    R-hat compares m = 2·chains halves, also of |θ|, of which a chain has fewer effective draws than of θ. With E of
    them, R̂² is about 1 + χ²m/((m − 1)E), χ² of m − 1 degrees of freedom. E is what a verdict asks for. A bound of 1.01
    alone is too strict: two of six sets of 2,400 draws of NUTS with 30 parameters had an R-hat beyond it.
    """
    m = 2 * max(chains, 2)  # one chain is cut in four
    return float(np.sqrt(1 + chdtri(m - 1, FALSE_ALARMS / parameters) * m / (m - 1) / STRICT.ess))


def statistics(tree: Results, bounds: Bounds) -> list[Line]:
    """Return the lines of what the sampler recorded, if it is one of ours."""
    if "sample_stats" not in tree.children:
        return []
    stats, lines = tree["sample_stats"].to_dataset(), []
    if "kinetic_temperature" in stats and stats.sizes["draw"] >= FEWEST_DRAWS:
        values = stats["kinetic_temperature"].values
        (T, allowed), mean = temperature_law(tree, values, bounds), float(np.mean(values))
        found = f"{mean:.3f} ± {float(standard_errors(values)):.3f}, should be {T:g}"
        advice = (
            "the noise of the gradients is not removed; use isotherm.fit or isotherm.eccadl, larger batches or a "
            "smaller step_size"
        )
        lines.append(Line("kinetic temperature", abs(mean - T) <= allowed, found, f"{allowed:.3f} off", advice))
    if (law := friction_law(tree, bounds)) is not None:
        (A, allowed), mean = law, float(np.mean(stats["friction"].values))
        advice = "there is noise that the sampler does not see; use isotherm.fit, larger batches or a smaller step_size"
        found = f"{mean:.2f}, should be {A:g}"
        lines.append(Line("friction", abs(mean - A) <= allowed, found, f"{allowed:.2f} off", advice))
    if "expm_error" in stats and (worst := float(np.nanmax(stats["expm_error"].values, initial=0))) > 0:
        advice = "raise rank, or use a smaller step_size"
        lines.append(Line("Krylov error", worst <= KRYLOV_ERROR, f"{worst:.2g}", f"{KRYLOV_ERROR}", advice))
    return lines


def temperature_of(tree: Results) -> float:
    """Return the T at which draws are from π^(1/T), with π the posterior; 1 unless the run says another."""
    return float(tree.attrs.get("sampler_temperature", 1.0))


def temperature_law(tree: Results, values: np.ndarray, bounds: Bounds) -> tuple[float, float]:
    """Return T, and how far the mean may be off: errors grow with the temperature, so are scaled to T."""
    T = temperature_of(tree)
    return T, bounds.temperature * T + 3 * float(standard_errors(values)) / max(1.0, float(np.mean(values)) / T)


def friction_law(tree: Results, bounds: Bounds) -> tuple[float, float] | None:
    """Return the mean A of a thermostat's ξ, if there is one, and how far off it may be; it varies by 1/√(βμ)."""
    stats, T = tree["sample_stats"].to_dataset(), temperature_of(tree)
    if not {"friction", "target_friction", "thermal_mass"} <= set(stats):
        return None
    A, mu = (float(stats[name].mean()) for name in ("target_friction", "thermal_mass"))
    return A, bounds.friction * max(1.0, A) + 5 * (T / mu) ** 0.5
