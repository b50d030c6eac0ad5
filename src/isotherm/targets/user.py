"""From what a user passes as a posterior, its data and a start to a target, and back to results in the user's terms."""

from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior, PosteriorWithDefaults
from isotherm.targets.effects import GroupedLikelihood, bind, bind_again, groups_of, user_results
from isotherm.targets.target import Target, as_target


def with_defaults(
    posterior: Posterior, data: Batch | None, init: Params | None = None
) -> tuple[Target, Batch, Params | None]:
    """Return the target, its data and where to start: those given or, in place of None, the model's own."""
    if isinstance(posterior, PosteriorWithDefaults):
        own_data, own_init = posterior.defaults()
        data, init = own_data if data is None else data, own_init if init is None else init
    if isinstance(posterior, Posterior) and posterior.effects:
        return bind(posterior, data, init)
    target = as_target(posterior)
    if has_effects(target):
        data, init = bind_again(target, data, init)
    return target, data, init


def results_for_user(posterior: Posterior, target: Target, tree: Results) -> Results:
    """Return the results of a run under the model's own names and on its own scales, if it has some."""
    if isinstance(posterior, PosteriorWithDefaults):
        tree = posterior.results(tree)
    return user_results(groups_of(target), tree) if has_effects(target) else tree


def has_effects(target: Target) -> bool:
    return isinstance(target.log_likelihood, GroupedLikelihood)
