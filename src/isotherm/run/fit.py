"""`isotherm.fit`, the front door: no step size, no batch size, no number of steps."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import place
from isotherm.diagnostics.verdict import entries, good_chains, sizes
from isotherm.lib import arguments
from isotherm.lib.types import Batch, Json, Params, Results
from isotherm.lib.warn import warn
from isotherm.posterior import Posterior
from isotherm.run.assemble import Run, RunSettings, assemble
from isotherm.run.plan import BURN_IN_SHARE, KEPT_DRAWS, Goal, Plan
from isotherm.run.sample import check_place, run_to_end
from isotherm.samplers import eccadl
from isotherm.samplers.eccadl import ECCAdL
from isotherm.store.checkpoint import StorePath
from isotherm.targets import checks
from isotherm.targets.anchor import LARGE_SHARE, anchor
from isotherm.targets.newton import CannotAnchor
from isotherm.targets.parameters import is_function
from isotherm.targets.target import Anchored, Target
from isotherm.targets.user import results_for_user, with_defaults
from isotherm.targets.wide import Wide

ANCHORED_BURN_IN = 100  # steps on an anchored posterior: chains start at typical draws, and forget their starts soon
FIRST_DRAWS = 400  # fewest draws of each chain before convergence is first computed
STEPS_A_DRAW = 2.5  # about what an effective draw takes on an anchored posterior
ANCHORED_STEPS = 200_000  # steps
PILOT_STEPS = 300  # steps that show whether chains stay finite, and whether the noise is what it was measured to be
BEND_BOUND = 0.6  # the relative difference of the force from a Gaussian's, at typical draws
SPIKE_DISTANCE = 100.0  # standard deviations of a mode, from which chains that begin elsewhere do not come to it: at
# spikes of hierarchies 450 to 1,200 after a pilot, at modes where only the tails are not a Gaussian's 1 to 2
FRICTION_EXCESS = 2.0  # by how much ξ may be above A, beside 5 of its standard deviations
EXACT_ROWS = 5_000  # rows, of which all can be used at every step
KNOWN_INTERVAL = 2**20  # steps between renewals of what is known and stays the same
PLAIN_BATCH = (32, 1000)  # rows: a batch is a sixteenth of the data, within these bounds
PLAIN_PASSES = (20, 50, 300)  # burn-in, the first look at convergence, and the end
EXACT_STEPS = (1_000, 4_000, 100_000)  # the same in steps, with all rows at every step


def fit(
    posterior: Posterior,
    data: Batch | None = None,
    init: Params | None = None,
    *,
    ess: int = 400,
    seconds: float | None = None,
    steps: int | None = None,
    anchored: bool = True,
    chains: int = 4,
    seed: int = 0,
    keep: int | str | None = "auto",
    store: StorePath | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    spread: str = "chains",
    progress: bool = True,
) -> Results:
    """Draw from `posterior` given `data` until there are enough draws.

    It anchors the posterior (`isotherm.anchor`), finds out whether that pays, and samples with `isotherm.eccadl`,
    anchored or plain, until every parameter has `ess` effective draws and R-hat is at most 1.01.

    Args:
        posterior: the model, or what `isotherm.from_numpyro` made of it, which has data and a start of its own.
        data: a pytree of arrays with one leading length N, or a table of pandas, polars or Arrow.
        init: the parameters to start from, such as zeros of their shapes. An anchored posterior needs none.
        ess: the number of effective draws that every parameter must have, in the bulk and in the tails.
        seconds: when to stop sampling at the latest, counted from when anchoring and compiling are over; without it,
            after 200,000 steps, or, where anchoring does not pay, 300 passes over the data, or 100,000 steps that take
            all rows each.
        steps: after how many steps to stop at the latest; unlike `seconds`, it gives the same draws everywhere.
        anchored: whether to try anchoring. False saves the attempt for a model that is known to have many modes, such
            as a network, and gives no warning.
        chains, seed: the number of independent chains; same seed, same draws.
        keep: of how many levels of each effect draws are kept: None for all, "auto" for all of up to 300,000 parameters
            or else 1,000. `posterior_mean` and `posterior_variance` are of all levels.
        store: a folder to be made, such as "run.zarr", with which `isotherm.resume` goes on however the run ends.
        devices, spread, progress: as in `isotherm.sample`.

    Returns:
        What `isotherm.sample` returns. Its attributes `fit_method`, `fit_reason` and, where it is anchored,
        `anchor_order`, `anchor_noise` and so on say what was chosen, and why.
    """
    most_steps = None if steps is None else arguments.integer("steps", steps, 8)
    limit = None if seconds is None else arguments.positive("seconds", seconds)
    goal = Goal(arguments.positive("ess", ess), ANCHORED_STEPS if most_steps is None else most_steps, limit)
    with processes.together():
        check_place(store)
        target, data, init = with_defaults(posterior, data, init)
        data = checks.checked_data(data)
        settings = RunSettings(chains=chains, seed=seed, devices=devices, spread=spread, keep=keep).checked()
        if settings.mesh(data) is None:
            data = jax.tree.map(place, data)  # once for all that follows
        choice = choose(target, data, init, settings, anchored, goal, progress)
        goal = choice.goal if most_steps is None else goal
        run = choice.run._replace(notes=choice.run.notes | {"fit_ess": goal.ess})  # which `check` then asks for
        tree = run_to_end(run, shortened(choice.plan, most_steps), store, progress, goal)
        return results_for_user(posterior, run.evaluation.target, tree)


class Choice(NamedTuple):
    """How `fit` samples: the run, its first plan, and the goal until which the plan is made longer."""

    run: Run
    plan: Plan
    goal: Goal


def choose(
    target: Target, data: Batch, init: Params | None, settings: RunSettings, anchored: bool, goal: Goal, progress: bool
) -> Choice:
    """Choose a run on the anchored posterior, if `anchored` and if that pays; warn if it does not."""
    found, why_not = None, "anchored=False"
    if anchored:
        found, why_not = anchored_or_why_not(target, data, init, settings, progress)
    if found is not None and not why_not:
        run = assemble(found, sampler_of(found), data, None, settings, anchored_notes(found))
        draws = max(FIRST_DRAWS, int(STEPS_A_DRAW * goal.ess / run.chains))
        return Choice(run, Plan(ANCHORED_BURN_IN + draws, ANCHORED_BURN_IN, 1), goal)
    if anchored:
        warn(why_not)
    if found is None or is_function(init):
        return plain_choice(target, data, init, settings, goal, why_not)
    if isinstance(found, Anchored) and found.findings.bend > BEND_BOUND and init is not None:
        # A hierarchy has a spike where its scale is 0, which chains do not leave, nor come to from elsewhere.
        choice = plain_choice(target, data, init, settings, goal, why_not)
        tree = pilot(choice.run)
        last = entries(tree, np.arange(sum(sizes(tree))))[1][:, -1]
        distance = np.sqrt(np.mean(found.coordinates.position(last) ** 2))
        if good_chains(tree).all() and distance > SPIKE_DISTANCE:
            return choice
    return plain_choice(target, data, found.mode, settings, goal, why_not)


def anchored_or_why_not(
    target: Target, data: Batch, init: Params | None, settings: RunSettings, progress: bool
) -> tuple[Anchored | Wide | None, str]:
    """Return the anchored posterior, if there is one, and why it is not used, in a sentence, if it is not."""
    rows = sum(processes.row_counts(data))
    try:
        if isinstance(target, Anchored | Wide):
            anchored = target
        else:
            anchored = anchor(target, data, init, seed=settings.seed, progress=progress)
    except CannotAnchor as reason:
        if reason.is_fault:
            raise
        return None, without_anchor(str(reason), rows)
    if isinstance(anchored, Wide):
        return anchored, ""
    found = anchored.findings
    if found.bend > BEND_BOUND:  # first: what looks like another mode may then be the same one
        why_not = (
            f"the posterior is far from a Gaussian around its mode (the force is off by {min(found.bend, 9.99):.0%} or "
            "more)"
        )
    elif found.modes > 1:
        why_not = "the posterior has more than one mode, and chains do not cross between them"
    elif found.batch_size > LARGE_SHARE * rows:
        why_not = (
            f"batches of {found.batch_size:,} of the {rows:,} rows would be needed: there are too few rows for "
            f"{len(anchored.gradient):,} parameters"
        )
    else:
        why_not = too_hot(anchored, data, settings)
    return anchored, without_anchor(why_not, rows) if why_not else ""


def without_anchor(reason: str, rows: int) -> str:
    """Return the reason and what fit does instead, in a sentence."""
    if rows <= EXACT_ROWS:
        return (
            f"{reason}; so fit samples with all {rows:,} rows at every step, without anchoring: few enough for NUTS, "
            "which has no bias"
        )
    return f"{reason}; so fit samples with plain batches, without anchoring, which takes longer"


def sampler_of(anchored: Anchored | Wide) -> ECCAdL:
    """Return the sampler of an anchored posterior; that of one with effects knows S, which is not renewed."""
    return eccadl(covariance="diagonal", every=KNOWN_INTERVAL) if isinstance(anchored, Wide) else eccadl()


def too_hot(anchored: Anchored, data: Batch, settings: RunSettings) -> str:
    """Return in words how a short run shows that the noise is not what it was measured to be; "" if it does not."""
    tree = pilot(assemble(anchored, eccadl(), data, None, settings))
    friction, A = (float(tree["sample_stats"][name].mean()) for name in ("friction", "target_friction"))
    if not good_chains(tree).all():
        return "chains on the anchored posterior diverge: it is wider than its Taylor polynomials are good for"
    if friction > A + FRICTION_EXCESS + 5 / len(anchored.gradient) ** 0.5:
        return (
            f"the anchored force has noise that changes from place to place (friction {friction:.1f} instead of {A:g})"
        )
    return ""


def pilot(run: Run) -> Results:
    """Return the results of a short run, which nobody is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        tree = run_to_end(run, Plan(PILOT_STEPS, PILOT_STEPS // 2, 1), None, progress=False, judged=False)
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    return tree


def anchored_notes(anchored: Anchored | Wide) -> Json:
    """Return attributes that say how the posterior was anchored."""
    found = anchored.findings
    reason = f"noise over curvature {float(found.noise):.2g} instead of {float(found.plain_noise):.2g}"
    if isinstance(anchored, Wide):
        reason = "all rows at every step" if anchored.takes_all_rows else f"noise over curvature {found.noise:.2g}"
    return {
        "fit_method": "anchored eccadl",
        "fit_reason": reason,
        "anchor_order": anchored.order,
        **{f"anchor_{name}": float(value) for name, value in found._asdict().items() if name != "batch_size"},
    }


def plain_choice(
    target: Target, data: Batch, init: Params | None, settings: RunSettings, goal: Goal, why: str
) -> Choice:
    """Choose plain batches, or all rows if they are few; `why` says why there is no anchor."""
    rows = sum(processes.row_counts(data))
    exact = rows <= EXACT_ROWS
    size = rows if exact else int(np.clip(rows // 16, *PLAIN_BATCH))
    if exact:
        burn_in, first, most = EXACT_STEPS
        thin = 4
    else:
        burn_in, first, most = (round(passes * rows / size) for passes in PLAIN_PASSES)
        thin = max(1, rows // (8 * size))
    settings = dataclasses.replace(settings, batch_size=size, replace=not exact)
    notes = {"fit_method": "plain eccadl", "fit_reason": why}
    run = assemble(target.plain, eccadl(), data, init, settings, notes)
    return Choice(run, Plan(first, burn_in, thin), goal._replace(most_steps=most))


def shortened(plan: Plan, steps: int | None) -> Plan:
    """Limit a plan to `steps`, of which up to a quarter are burn-in and eight draws or more are kept."""
    if steps is None or steps >= plan.steps:
        return plan
    burn_in = min(plan.burn_in, int(BURN_IN_SHARE * steps))
    return Plan(steps, burn_in, max(1, min(plan.thin, (steps - burn_in) // KEPT_DRAWS)))
