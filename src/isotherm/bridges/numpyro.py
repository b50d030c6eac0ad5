"""`isotherm.from_numpyro`: a NumPyro model and its data as a posterior.

With z the unconstrained values of the latent sites and T their transforms, what is sampled is

    log π(z | data) = Σ_i log p(row i | T(z)) + log π(T(z)) + log |det T′(z)| + constant.

One row's log-likelihood is that of the observed sites when the model is called with this row alone. A site's log
density over some rows must then be the sum of those of each row, or, as part of the prior, the same whatever the rows.
No rule of how to write a model is needed: it is called with several rows and with one, and log densities are compared.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.diagnostics.verdict import as_sampled
from isotherm.lib.optional import extra
from isotherm.lib.types import Batch, Example, Params, RandomKey, Results, Scalar
from isotherm.posterior import UNCONSTRAINED, PosteriorWithDefaults
from isotherm.targets.checks import as_arrays, check_data, reason

START_RADIUS = 0.1  # chains start at unconstrained values between −0.1 and 0.1
BLOCK_DRAWS = 256  # turned into constrained values together

# The comparison of log densities
PROBE_ROWS = 16  # with which the model is called to see what depends on the number of rows
PROBE_POINTS = 3  # at which log densities are compared
AGREEMENT = 1e-4  # of log densities, relative to the sum of their sizes, of which float32 keeps about 1e-6
SAME_FOR_ALL = "give what is the same for all rows as a keyword argument of from_numpyro"

ModelFunction: TypeAlias = Callable[..., Any]  # with NumPyro's `sample` statements
Site: TypeAlias = dict[str, Any]  # of a trace of NumPyro's
Fixed: TypeAlias = dict[str, object]  # arguments of the model that are the same for all rows


def from_numpyro(model: ModelFunction, data: Batch, /, **fixed: object) -> "NumPyroModel":
    """Make a posterior of a NumPyro model and its data, for `isotherm.fit`, `sample`, `resume`, `check` and `report`.

    >>> import isotherm, numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(x, y):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
    ...     sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    ...     with numpyro.plate("rows", len(y)):
    ...         numpyro.sample("y", dist.Normal(slope * x, sigma), obs=y)
    >>> x = np.linspace(-1, 1, 100)
    >>> isotherm.from_numpyro(model, {"x": x, "y": 2 * x})
    <NumPyro model: slope, sigma; 100 rows>

    Then `isotherm.fit(posterior)` needs neither data nor a start. The draws it returns have the model's names and are
    in the space that its priors are on.

    Args:
        model: a function with NumPyro's `sample` statements.
        data: those of its arguments that have one row an example, by name; or a table of pandas, polars or Arrow,
            whose columns they are. The model must work with any number of rows: plates have the size `len(y)`.
        fixed: its other arguments, which are the same for all rows, such as the number of groups.

    Returns:
        A posterior with its data, which goes wherever a `Posterior` goes.

    Raises:
        ValueError: the model cannot be split by rows, in a sentence that says why.
    """
    with extra("numpyro", "from_numpyro"):
        import numpyro  # noqa: F401
    if not callable(model):
        raise TypeError(f"model must be a function with numpyro.sample statements, got {model!r}")
    data = as_arrays("data", data)
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise TypeError(f"data must have the model's arguments by name, such as {{'x': x, 'y': y}}, got {type(data)}")
    check_data(data)
    try:
        inspect.signature(model).bind(**data, **fixed)
    except TypeError as error:
        raise TypeError(f"data and further arguments do not fit the model: {error}") from error
    return split_by_rows(model, data, fixed)


class Latent(NamedTuple):
    """A latent site: its name, its name in unconstrained results, and the shape of its unconstrained value."""

    name: str
    label: str
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class NumPyroModel(PosteriorWithDefaults):
    """What `isotherm.from_numpyro` returns: a `Posterior` with data, a start and names. Its parameters are a dict of
    unconstrained values; `data` are the arrays of the model's arguments."""

    latents: tuple[Latent, ...]
    values: Callable[[Params], dict[str, jax.Array]]  # parameters → values of latent and deterministic sites
    data: Batch

    def defaults(self) -> tuple[Batch | None, Params | None]:
        return self.data, self.start

    def start(self, key: RandomKey) -> Params:
        """Return parameters near 0, a little different for each key."""
        keys = dict(zip(self.latents, jax.random.split(key, len(self.latents)), strict=True))
        return {s.label: jax.random.uniform(k, s.shape, float, -START_RADIUS, START_RADIUS) for s, k in keys.items()}

    def results(self, tree: Results) -> Results:
        """Return the results with `posterior` in the space that the model's priors are on, with the deterministic sites
        that do not depend on the data. What was sampled is in `unconstrained_posterior`."""
        from arviz_base import from_dict

        sampled = as_sampled(tree)["posterior"].to_dataset()
        labels = [latent.label for latent in self.latents]
        if missing := [label for label in labels if label not in sampled]:
            raise ValueError(f"these are no results of this model: {', '.join(missing)} is missing")
        if UNCONSTRAINED in tree.children:
            return tree
        chains, draws = sampled.sizes["chain"], sampled.sizes["draw"]
        flat = {label: sampled[label].values.reshape(-1, *sampled[label].shape[2:]) for label in labels}
        values = jax.jit(lambda params: jax.lax.map(self.values, params, batch_size=BLOCK_DRAWS))(flat)
        by_chain = {name: np.asarray(each).reshape(chains, draws, *each.shape[1:]) for name, each in values.items()}
        coordinates = {name: sampled[name].values for name in ("chain", "draw")}
        seen: Results = tree.copy()
        seen["posterior"] = from_dict({"posterior": by_chain}, coords=coordinates, check_conventions=False)["posterior"]
        seen["posterior"].attrs.update(tree["posterior"].attrs)
        seen[UNCONSTRAINED] = tree["posterior"].copy()
        return seen

    def __repr__(self) -> str:
        rows = len(jax.tree.leaves(self.data)[0])
        return f"<NumPyro model: {', '.join(latent.name for latent in self.latents)}; {rows:,} rows>"


@dataclass(frozen=True, eq=False)
class Program:
    """A model with its fixed arguments and latent sites, without its data."""

    model: ModelFunction
    fixed: Fixed
    latents: tuple[Latent, ...]

    def evaluate(self, params: Params, rows: Batch) -> tuple[dict[str, Scalar], dict[str, jax.Array]]:
        """Return, by site, log densities, summed over their entries, and the values of sites that are not observed. A
        transform's log-determinant is a site too: a factor of the model, as NumPyro has it."""
        import numpyro
        from numpyro import handlers
        from numpyro.distributions import biject_to
        from numpyro.infer.util import compute_log_probs

        unconstrained = {latent.name: params[latent.label] for latent in self.latents}

        def value_of(site: Site) -> jax.Array | None:
            if site["type"] != "sample" or site["name"] not in unconstrained:
                return None
            z, transform = unconstrained[site["name"]], biject_to(site["fn"].support)
            value = transform(z)
            log_det = transform.log_abs_det_jacobian(z, value)
            of_events = jnp.ndim(log_det) - jnp.ndim(value) + len(site["fn"].event_shape)
            numpyro.factor(f"_{site['name']}_log_det", jnp.sum(log_det, tuple(range(-of_events, 0))))
            return value

        arguments = jax.tree.map(jnp.asarray, rows) | self.fixed
        densities, trace = compute_log_probs(handlers.substitute(self.model, substitute_fn=value_of), (), arguments, {})
        kinds = ("sample", "deterministic")
        found = {k: site["value"] for k, site in trace.items() if site["type"] in kinds and not site.get("is_observed")}
        return densities, found


@contextlib.contextmanager
def _in_words(rows: int) -> Iterator[None]:
    """Raise what a model raises, when it is called with this number of rows, with what to do about it."""
    try:
        yield
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise ValueError(
            "the model needs to know the numbers in its data before it runs, or uses a function that is not "
            f"jax.numpy's; {SAME_FOR_ALL}, the number of groups, say: it raised {reason(error)}"
        ) from error
    except Exception as error:
        raise ValueError(
            f"the model cannot be called with {rows:,} of its rows: it raised {reason(error)}; write it for any number "
            f"of rows, so that a plate over them has the size len(y), and {SAME_FOR_ALL}"
        ) from error


def sites_of(model: ModelFunction, rows: Batch, fixed: Fixed) -> dict[str, Site]:
    """Return the sites of a model called with rows of these shapes; refuse those that batches cannot sample."""
    from numpyro import handlers
    from numpyro.distributions import biject_to
    from numpyro.infer import init_to_uniform

    found: dict[str, Site] = {}

    def look(rows: Batch) -> None:
        seeded = handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform)
        found.update(handlers.trace(seeded).get_trace(**rows, **fixed))
        for site in filter(is_latent, found.values()):
            if not site["fn"].support.is_discrete:  # here, since a support may depend on the value of another site
                site["unconstrained"] = biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"]))

    with _in_words(len(jax.tree.leaves(rows)[0])):
        jax.eval_shape(look, rows)
    for name, site in found.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise ValueError(
                f"plate {name!r} takes a subsample; leave subsample_size out and give all of the data: isotherm draws "
                "the batches"
            )
        if site["type"] == "param":
            raise ValueError(f"site {name!r} is a numpyro.param, which has no prior; make it a numpyro.sample")
        if is_latent(site) and site["fn"].support.is_discrete:
            raise ValueError(
                f"latent site {name!r} is discrete, and gradients do not move it; sum over its values, as "
                "numpyro.distributions.MixtureSameFamily does; if its values are data, they are missing: obs=…"
            )
    return found


def is_latent(site: Site) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def latents_of(model: ModelFunction, data: Batch, some: Batch, fixed: Fixed) -> tuple[Latent, ...]:
    """Return the latent sites, none of which has one value a row."""
    from numpyro.distributions import constraints

    shaped = jax.tree.map(lambda column: jax.ShapeDtypeStruct(jnp.shape(column), jnp.result_type(column)), data)
    _, of_some, of_one = (sites_of(model, rows, fixed) for rows in (shaped, some, first_row(some)))
    if of_some.keys() != of_one.keys():
        name = min(of_some.keys() ^ of_one.keys())
        raise ValueError(f"site {name!r} is only there for some numbers of rows; write the model for any number")
    found = []
    for name, site in of_some.items():
        if not is_latent(site):
            continue
        shape, support = jnp.shape(site["value"]), site["fn"].support
        if shape != jnp.shape(of_one[name]["value"]):
            raise ValueError(
                f"latent site {name!r} has one value a row, of which batches say too little; if it has one value a "
                "group, give the groups a plate of their own size and the rows an index into it, as in "
                f"{name}[group]; if its values are data, they are missing: obs=…"
            )
        base = support.base_constraint if isinstance(support, constraints.independent) else support
        is_real = base is constraints.real or base is constraints.real_vector  # it needs no transform
        label = name.replace("/", "_") + ("" if is_real else "_unconstrained")
        found.append(Latent(name, label, site["unconstrained"]))
    if not found:
        raise ValueError("the model has no latent site, so there is nothing to sample")
    if len({latent.label for latent in found}) < len(found):
        raise ValueError(f"two sites have one name in the results, of {', '.join(x.label for x in found)}; rename one")
    return tuple(found)


def first_row(rows: Batch) -> Batch:
    return jax.tree.map(lambda column: column[:1], rows)


class Measured(NamedTuple):
    """A model at one point: log densities and values by site, of some rows and of each alone, and NumPyro's density."""

    densities: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    by_row: dict[str, np.ndarray]
    values_by_row: dict[str, np.ndarray]
    log_density: np.ndarray

    def is_same_for_all(self, name: str) -> bool:
        """Return whether a site has the same value with all rows as with each alone."""
        together, alone = self.values[name], self.values_by_row[name]
        return together.shape == alone.shape[1:] and agree(together[None], alone, abs(together[None]))

    def check_against_numpyro(self, by_rows: list[str]) -> None:
        """Refuse a model whose sum over rows and prior is not NumPyro's log density."""
        terms = [self.by_row[name] if name in by_rows else value for name, value in self.densities.items()]
        total, size = sum(term.sum() for term in terms), sum(abs(term).sum() for term in terms)
        if not agree(self.log_density, total, size):
            raise ValueError(
                f"the model cannot be split by rows: NumPyro's log density of {PROBE_ROWS} rows is "
                f"{self.log_density:.6g}, and the sum of rows and prior is {total:.6g}"
            )


def measure(program: Program, rows: Batch, rng: np.random.Generator) -> list[Measured]:
    """Compute the model at some points, with several rows together and with each alone, by one compiled program."""
    from numpyro.infer.util import potential_energy

    @jax.jit
    def at(params: Params, rows: Batch) -> tuple[object, ...]:
        alone = jax.vmap(lambda row: program.evaluate(params, jax.tree.map(lambda value: value[None], row)))
        unconstrained = {latent.name: params[latent.label] for latent in program.latents}
        energy = potential_energy(program.model, (), rows | program.fixed, unconstrained)
        return *program.evaluate(params, rows), *alone(rows), -energy

    found = []
    with _in_words(PROBE_ROWS):
        for _ in range(PROBE_POINTS):
            point = {each.label: jnp.asarray(rng.uniform(-1, 1, each.shape), float) for each in program.latents}
            found.append(Measured(*jax.device_get(at(point, rows))))
    return found


def classify(found: list[Measured], latents: list[str]) -> tuple[list[str], list[str]]:
    """Return the sites whose log density is a sum over rows; and the others that do not depend on them."""
    by_rows = []
    for name in found[0].densities:
        total, rows = np.array([m.densities[name] for m in found]), np.array([m.by_row[name] for m in found])
        if agree(total[:, None], rows, abs(total[:, None])):
            continue
        if name in latents:
            raise ValueError(
                f"the prior of {name!r} depends on the data; compute what it needs before, and {SAME_FOR_ALL}"
            )
        if not agree(total, rows.sum(axis=1), abs(rows).sum(axis=1)):
            raise ValueError(
                f"site {name!r} cannot be split by rows: its log density is not the sum of those of each. If the "
                f"model computes an average over rows, do that before, and {SAME_FOR_ALL}; if one row depends on "
                "another, as in a time series, sample with NUTS"
            )
        by_rows.append(name)
    if not by_rows:
        raise ValueError("no observed site depends on the data; give one obs=…")
    for each in found:
        each.check_against_numpyro(by_rows)
    return by_rows, [name for name in found[0].values if all(m.is_same_for_all(name) for m in found)]


def split_by_rows(model: ModelFunction, data: Batch, fixed: Fixed) -> NumPyroModel:
    """Return the posterior; raise a ValueError that says why a model cannot be split."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(jax.tree.leaves(data)[0]), PROBE_ROWS)
    some = jax.tree.map(lambda column: np.asarray(column)[chosen], data)
    program = Program(model, fixed, latents_of(model, data, some, fixed))
    by_rows, kept = classify(measure(program, some, rng), [latent.name for latent in program.latents])
    first = first_row(some)

    def log_likelihood(params: Params, example: Example) -> Scalar:
        densities, _ = program.evaluate(params, jax.tree.map(lambda value: jnp.asarray(value)[None], example))
        return jnp.asarray(sum(densities[name] for name in by_rows))

    def log_prior(params: Params) -> Scalar:
        densities, _ = program.evaluate(params, first)
        return jnp.asarray(sum(value for name, value in densities.items() if name not in by_rows))

    def values(params: Params) -> dict[str, jax.Array]:
        _, found = program.evaluate(params, first)
        return {name.replace("/", "_"): found[name] for name in kept}

    return NumPyroModel(log_likelihood, log_prior, program.latents, values, data)


def agree(a: np.ndarray, b: np.ndarray, size: np.ndarray) -> bool:
    """Return whether numbers are the same up to rounding of terms whose sizes add up to `size`."""
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=0, atol=AGREEMENT * size + 1e-6, equal_nan=True)
        return bool((close | (a == b)).all())
