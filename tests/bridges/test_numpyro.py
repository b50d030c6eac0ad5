"""NumPyro models: the log density is NumPyro's own, draws come back where the priors are, and what cannot be split by
rows is refused in words."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.targets.target import Target
from isotherm.targets.user import with_defaults

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")

ZOO = Path(__file__).parents[2] / "benchmarks" / "numpyro_zoo.py"
RNG = np.random.default_rng(0)
X = RNG.standard_normal(40).astype(np.float32)
Y = (0.5 * X + RNG.standard_normal(40)).astype(np.float32)


@pytest.fixture(autouse=True)
def _as_a_user():
    """NumPyro promotes dtypes and ranks, as JAX does unless it is told not to."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def zoo():
    spec = importlib.util.spec_from_file_location("numpyro_zoo", ZOO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cases()


CASES = zoo()


def line(x, y, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0, scale))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.deterministic("signal", abs(slope) / sigma)
    mean = numpyro.deterministic("mean", slope * x)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def numpyros(case, model, params, rows):
    """NumPyro's own log density of unconstrained parameters."""
    unconstrained = {latent.name: params[latent.label] for latent in model.latents}
    arguments = {name: jnp.asarray(column) for name, column in rows.items()} | case.fixed
    return -numpyro.infer.util.potential_energy(case.model, (), arguments, unconstrained)


QUICK = ("linear", "hierarchical", "eight schools", "ordinal")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
        if name != "eight schools, as usual"
    ],
)
def test_the_log_density_is_numpyros(name, float64):
    """To rounding of the sum over 200 rows in double precision, at points all over the space."""
    case = CASES[name]
    rows = {name: column[:200] for name, column in case.data.items()}
    model = isotherm.from_numpyro(case.model, rows, **case.fixed)

    @jax.jit
    def both(params):
        ours = jax.vmap(model.log_likelihood, in_axes=(None, 0))(params, model.data).sum() + model.log_prior(params)
        return ours, numpyros(case, model, params, rows)

    for scale, key in zip((0.1, 3.0, 20.0), jax.random.split(jax.random.key(0), 3), strict=True):
        params = jax.tree.map(lambda z, scale=scale: scale * z, model.start(key))
        ours, theirs = both(params)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_eight_schools_as_usual_are_refused():
    case = CASES["eight schools, as usual"]
    with pytest.raises(ValueError, match=r"latent site 'theta' has one value a row, .* as in theta\[group\]"):
        isotherm.from_numpyro(case.model, case.data)


@pytest.mark.slow
def test_fit_needs_neither_data_nor_start(tmp_path):
    """Draws have the sites' names and are where the priors are, stored or not; `check` and `report` take them."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4_000)
    data = {"x": x, "y": 0.5 * x + 2 * rng.standard_normal(4_000)}
    model = isotherm.from_numpyro(line, data, scale=10.0)
    assert repr(model) == "<NumPyro model: slope, sigma; 4,000 rows>"
    store = tmp_path / "run.zarr"
    tree = isotherm.fit(model, ess=100, store=store)
    assert set(tree.posterior.data_vars) == {"slope", "sigma", "signal"}  # mean has a value for each row
    draws = tree.posterior
    # The scale of 4,000 residuals is known to 2/√8000 = 0.022, the slope to 2/√4000 = 0.032; five of those, and of
    # what the data differ by.
    np.testing.assert_allclose(draws.sigma.mean(), 2, atol=0.11)
    np.testing.assert_allclose(draws.slope.mean(), 0.5, atol=0.16)
    np.testing.assert_allclose(draws.sigma.std(), 0.0224, rtol=0.3)
    np.testing.assert_allclose(draws.signal, abs(draws.slope) / draws.sigma, rtol=1e-5)
    sampled = tree.unconstrained_posterior
    np.testing.assert_allclose(np.exp(sampled.sigma_unconstrained), draws.sigma, rtol=1e-5)
    np.testing.assert_array_equal(sampled.slope, draws.slope)
    verdict = isotherm.check(tree, model)
    assert "sigma_unconstrained" in verdict.moments.names

    import xarray

    on_disk = xarray.open_datatree(store, engine="zarr")
    xarray.testing.assert_allclose(model.results(on_disk).posterior.to_dataset(), draws.to_dataset())
    assert model.results(tree) is tree
    longer = isotherm.resume(store, model, steps=100)
    assert longer.posterior.sizes["draw"] >= draws.sizes["draw"] + 100
    np.testing.assert_array_equal(longer.posterior.sigma[:, : draws.sizes["draw"]], draws.sigma)


def test_sample_and_a_table():
    """Columns of a table are the model's arguments; chains start apart."""
    import pandas as pd

    model = isotherm.from_numpyro(line, pd.DataFrame({"x": X, "y": Y}))
    tree = isotherm.sample(model, isotherm.sgld(1e-3), batch_size=5, steps=20, burn_in=0, thin=1, chains=2)
    assert tree.posterior.sigma.shape == (2, 20)
    assert (tree.posterior.sigma > 0).all()
    assert len({float(start) for start in tree.unconstrained_posterior.slope[:, 0]}) == 2
    with pytest.raises(ValueError, match="these are no results of this model: slopes is missing"):
        isotherm.from_numpyro(CASES["poisson"].model, {k: v[:50] for k, v in CASES["poisson"].data.items()}).results(
            tree
        )


def test_own_data_and_start_can_be_given_all_the_same():
    model = isotherm.from_numpyro(line, {"x": X, "y": Y})
    target, data, init = with_defaults(model, {"x": X[:3], "y": Y[:3]}, {"slope": 1.0})
    assert type(target) is Target
    assert len(data["x"]) == 3
    assert init == {"slope": 1.0}


def test_what_compiled_programs_remember_is_not_the_data():
    """Programs are kept for a model's functions, and so what these hold is never freed."""
    model = isotherm.from_numpyro(line, {"x": X, "y": Y})
    held = [model.log_likelihood, model.log_prior]
    seen = []
    while held:
        item = held.pop()
        seen.append(item)
        for cell in getattr(item, "__closure__", None) or ():
            held.append(cell.cell_contents)
        held += list(getattr(item, "__dict__", {}).values()) if type(item).__module__.startswith("isotherm") else []
    arrays = [leaf for item in seen if isinstance(item, dict) for leaf in item.values() if hasattr(leaf, "shape")]
    assert arrays
    assert all(len(np.atleast_1d(array)) == 1 for array in arrays)


def test_an_observed_site_that_is_the_same_for_all_rows_is_part_of_the_prior(float64):
    """Such as what an earlier study found."""

    def model(y, earlier):
        mean = numpyro.sample("mean", dist.Normal(0, 10))
        with numpyro.plate("studies", len(earlier)):
            numpyro.sample("earlier", dist.Normal(mean, 0.5), obs=earlier)
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    found = isotherm.from_numpyro(model, {"y": Y}, earlier=jnp.array([1.0, 2.0]))
    params = {"mean": jnp.array(0.3)}
    prior = dist.Normal(0, 10).log_prob(0.3) + dist.Normal(0.3, 0.5).log_prob(jnp.array([1.0, 2.0])).sum()
    np.testing.assert_allclose(found.log_prior(params), prior, rtol=1e-12)
    row = {"y": jnp.array(2.0)}
    np.testing.assert_allclose(found.log_likelihood(params, row), dist.Normal(0.3, 1).log_prob(2.0), rtol=1e-12)


def test_two_observed_plates_and_a_factor_by_row(float64):
    """All that a row has to say is added up."""

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("first", len(x)):
            numpyro.sample("x", dist.Normal(slope, 1), obs=x)
        with numpyro.plate("second", len(y)):
            numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
            numpyro.factor("extra", -jnp.abs(slope * y))

    found = isotherm.from_numpyro(model, {"x": X, "y": Y})
    x, y, slope = 0.2, 0.7, 0.4
    expected = dist.Normal(slope, 1).log_prob(x) + dist.Normal(slope * x, 1).log_prob(y) - abs(slope * y)
    row = {"x": jnp.array(x), "y": jnp.array(y)}
    np.testing.assert_allclose(found.log_likelihood({"slope": jnp.array(slope)}, row), expected, rtol=1e-12)


def local_latent(x, y):
    with numpyro.plate("rows", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


def subsampled(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=2) as chosen:
        numpyro.sample("y", dist.Normal(slope * x[chosen], 1), obs=y[chosen])


def subsampled_by_hand(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", 40, subsample_size=len(y)):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def discrete(x, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(slopes[k] * x, 1), obs=y)


def centred(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(slope * (x - x.mean()), 1), obs=y)


def time_series(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a * y[:-1], 1), obs=y[1:])


def prior_from_data(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1 + y.std()))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def size_in_numbers(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", 40):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def groups_from_data(x, y):
    groups = len(np.unique(x))
    effects = numpyro.sample("effects", dist.Normal(0, 1).expand([groups]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(effects[0] * x, 1), obs=y)


def mean_instead_of_sum(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.factor("loss", -jnp.mean((y - slope * x) ** 2))


def without_latent(x, y):
    numpyro.sample("y", dist.Normal(x, 1), obs=y)


def without_data(x, y):
    numpyro.sample("slope", dist.Normal(0, 1))


def with_param(x, y):
    slope = numpyro.param("slope", 0.0)
    numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def target_missing(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Poisson(jnp.exp(slope * x)))


REFUSALS = {
    local_latent: r"latent site 'z' has one value a row.*as in z\[group\].*obs=…",
    subsampled: r"plate 'rows' takes a subsample; leave subsample_size out",
    subsampled_by_hand: r"plate 'rows' takes a subsample; leave subsample_size out",
    discrete: r"latent site 'k' is discrete.*sum over its values.*MixtureSameFamily",
    centred: r"site 'y' cannot be split by rows: its log density is not the sum.*average over rows",
    time_series: r"site 'y' cannot be split by rows.*time series, sample with NUTS",
    prior_from_data: r"the prior of 'slope' depends on the data; compute what it needs before",
    size_in_numbers: r"cannot be called with 16 of its rows.*has the size len\(y\)",
    groups_from_data: r"needs to know the numbers in its data before it runs.*the number of groups, say",
    mean_instead_of_sum: r"site 'loss' cannot be split by rows",
    without_latent: r"no latent site, so there is nothing to sample",
    without_data: r"no observed site depends on the data; give one obs=…",
    with_param: r"site 'slope' is a numpyro.param, which has no prior; make it a numpyro.sample",
    target_missing: r"latent site 'y' is discrete.*if its values are data, they are missing: obs=…",
}


@pytest.mark.parametrize("model", REFUSALS, ids=lambda model: model.__name__)
def test_what_cannot_be_split_by_rows_is_refused_in_words(model):
    with pytest.raises(ValueError, match=REFUSALS[model]):
        isotherm.from_numpyro(model, {"x": X, "y": Y})


def test_arguments_that_do_not_fit():
    with pytest.raises(TypeError, match="data and further arguments do not fit the model: missing a required argument"):
        isotherm.from_numpyro(line, {"x": X})
    with pytest.raises(TypeError, match="do not fit the model: got an unexpected keyword argument 'z'"):
        isotherm.from_numpyro(line, {"x": X, "y": Y}, z=1)
    with pytest.raises(TypeError, match=r"model must be a function with numpyro\.sample statements, got 3"):
        isotherm.from_numpyro(3, {"x": X})
    with pytest.raises(TypeError, match="data must have the model's arguments by name"):
        isotherm.from_numpyro(line, (X, Y))
    with pytest.raises(ValueError, match=r"data\['y'\] must be finite, got nan in row 3"):
        isotherm.from_numpyro(line, {"x": X, "y": np.where(np.arange(40) == 3, np.nan, Y)})


def test_without_numpyro_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ModuleNotFoundError, match=r"from_numpyro needs numpyro: pip install 'isotherm\[numpyro\]'"):
        isotherm.from_numpyro(line, {"x": X, "y": Y})


def test_sites_with_slashes_and_matrices():
    """xarray has no slashes in names; a simplex, a correlation matrix and an interval have other unconstrained
    shapes."""

    def model(y):
        with numpyro.handlers.scope(prefix="part"):
            weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
        factor = numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
        low = numpyro.sample("low", dist.Uniform(-1, 0))
        high = numpyro.sample("high", dist.Uniform(low, 1))  # a support that another site decides
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.MultivariateNormal(weights * high + low, scale_tril=factor), obs=y)

    y = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    found = isotherm.from_numpyro(model, {"y": y})
    assert {latent.label: latent.shape for latent in found.latents} == {
        "part_weights_unconstrained": (2,),
        "factor_unconstrained": (3,),
        "low_unconstrained": (),
        "high_unconstrained": (),
    }
    values = jax.jit(found.values)(found.start(jax.random.key(0)))
    np.testing.assert_allclose(values["part_weights"].sum(), 1, rtol=1e-5)
    np.testing.assert_allclose((values["factor"] ** 2).sum(axis=1), 1, rtol=1e-5)
    assert -1 < values["low"] < values["high"] < 1
