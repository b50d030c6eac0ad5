"""Against the naive computation: every value at once, and NumPy's own mean, standard deviation and quantiles."""

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
import zarr

import isotherm
from isotherm.models import GeneralisedLinear, families
from isotherm.predict import predict, prediction


def made(chains=3, draws=7, features=4, seed=0, **stats):
    """A tree with draws of `w` and of a nest."""
    rng = np.random.default_rng(seed)
    posterior = xarray.Dataset(
        {
            "w": (("chain", "draw", "w_dim_0"), rng.normal(size=(chains, draws, features)).astype(np.float32)),
            "net.b": (("chain", "draw"), rng.normal(size=(chains, draws)).astype(np.float32)),
        },
        {"chain": np.arange(chains), "draw": 10 + np.arange(draws)},
    )
    tree = {"posterior": posterior}
    if stats:
        tree["sample_stats"] = xarray.Dataset({name: ("chain", value) for name, value in stats.items()})
    return xarray.DataTree.from_dict(tree)


def data_of(rows, features=4):
    return {"x": np.random.default_rng(1).normal(size=(rows, features)).astype(np.float32)}


def both(params, example):
    """A nest: a number, and a vector."""
    value = example["x"] @ params["w"] + params["net"]["b"]
    return {"rate": jnp.exp(value), "signs": jnp.sign(example["x"] * params["w"])}


def naive(tree, data):
    """Values by (chain, draw, row, …), one after the other, in NumPy."""
    w, b = tree["posterior"]["w"].values, tree["posterior"]["net.b"].values
    rate = np.exp(np.einsum("cdf,rf->cdr", w, data["x"]) + b[..., None])
    return {"rate": rate, "signs": np.sign(w[:, :, None] * data["x"])}


def agree(found, values, levels, prefix=""):
    """To the rounding of float32 in the function itself; the summaries are computed in double precision."""
    flat = values.reshape(-1, *values.shape[2:]).astype(np.float64)
    np.testing.assert_allclose(found[f"{prefix}mean"], flat.mean(axis=0), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(found[f"{prefix}sd"], flat.std(axis=0), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(found[f"{prefix}quantiles"], np.quantile(flat, levels, axis=0), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_is_the_naive_computation(rows, monkeypatch):
    """Also where blocks are small, and neither rows nor draws are a whole number of them."""
    tree, data, levels = made(), data_of(rows), (0.0, 0.1, 0.5, 0.77, 1.0)
    whole = predict(tree, both, data, quantiles=levels, progress=False)
    for name, values in naive(tree, data).items():
        agree(whole, values, levels, f"{name}_")
    assert whole["rate_quantiles"].dims == ("quantile", "row")
    assert whole["signs_mean"].dims == ("row", "signs_dim_0")
    np.testing.assert_array_equal(whole["quantile"], levels)
    monkeypatch.setattr(prediction, "VALUES", 21 * 20 * 3)  # three rows
    monkeypatch.setattr(prediction, "WORK", 400)  # a few draws
    monkeypatch.setattr(prediction, "KEPT", 0)
    xarray.testing.assert_allclose(predict(tree, both, data, quantiles=levels, progress=False), whole, rtol=2e-6)


def test_a_bare_array_needs_no_name():
    tree, data = made(), data_of(6)
    found = predict(tree, lambda p, e: e["x"] @ p["w"] + p["net"]["b"], data, progress=False)
    assert set(found.data_vars) == {"mean", "sd", "quantiles"}
    agree(found, np.log(naive(tree, data)["rate"]), (0.05, 0.5, 0.95))
    assert "quantiles" not in predict(tree, both, data, quantiles=(), progress=False)


def test_whole_numbers_and_truths_are_counted():
    tree, data = made(), data_of(6)
    found = predict(tree, lambda p, e: {"up": e["x"] @ p["w"] > 0, "n": jnp.sum(e["x"] > p["w"])}, data, progress=False)
    w = tree["posterior"]["w"].values.reshape(21, 4)
    np.testing.assert_allclose(found["up_mean"], (data["x"] @ w.T > 0).mean(axis=1))
    np.testing.assert_allclose(found["n_mean"], (data["x"][:, None] > w).sum(axis=2).mean(axis=1))


def test_what_is_not_a_number_stays_so():
    data = data_of(3)
    data["x"][1, 2] = np.nan
    found = predict(made(), both, data, progress=False)
    for name in ("rate_mean", "rate_sd"):
        np.testing.assert_array_equal(np.isnan(found[name]), [False, True, False])
    assert np.isnan(found["rate_quantiles"][:, 1]).all()


def test_diverged_chains_are_left_out():
    tree, data = made(first_bad_step=[-1, 50, -1]), data_of(4)
    tree["posterior"]["w"][1] = np.nan
    with pytest.warns(RuntimeWarning, match="1 of 3 chains diverged and are left out of the predictions: 1"):
        found = predict(tree, both, data, progress=False)
    agree(found, naive(tree, data)["rate"][[0, 2]], (0.05, 0.5, 0.95), "rate_")
    with pytest.raises(ValueError, match="all chains of tree diverged"):
        predict(made(first_bad_step=[1, 2, 3]), both, data, progress=False)


def test_some_draws_are_enough():
    tree, data = made(chains=2, draws=9), data_of(4)
    found = predict(tree, both, data, draws=6, progress=False)
    agree(found, naive(tree, data)["rate"][:, ::3], (0.05, 0.5, 0.95), "rate_")


def test_a_store_has_every_value(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "VALUES", 21 * 20 * 3)
    tree, data = made(), data_of(8)
    predict(tree, both, data, store=tmp_path / "all.zarr", progress=False)
    stored = xarray.open_datatree(tmp_path / "all.zarr", engine="zarr", chunks=None)["predictions"]
    for name, values in naive(tree, data).items():
        np.testing.assert_allclose(stored[name], values, rtol=2e-6)
    assert stored["signs"].dims == ("chain", "draw", "row", "signs_dim_0")
    np.testing.assert_array_equal(stored["draw"], 10 + np.arange(7))
    with pytest.raises(ValueError, match=r"^store="):
        predict(tree, both, data, store=tmp_path / "all.zarr", progress=False)


def test_data_are_read_in_blocks(tmp_path):
    """From a Zarr array on disk, of which no more than a block is ever asked for."""
    tree, data, asked = made(), data_of(40), []
    on_disk = zarr.create_array(tmp_path / "x.zarr", data=data["x"])

    class Watched:
        shape, dtype = on_disk.shape, on_disk.dtype

        def __getitem__(self, index):
            asked.append(index.stop - index.start)
            return on_disk[index]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "VALUES", 21 * 20 * 16)
        found = predict(tree, both, {"x": Watched()}, progress=False)
    assert sum(asked) == 40
    assert max(asked) <= 16
    xarray.testing.assert_allclose(found, predict(tree, both, data, progress=False), rtol=2e-6)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    data = {"x": x, "y": (x @ np.float32([1, -1]) + 0.5 * rng.normal(size=60)).astype(np.float32)}
    model = GeneralisedLinear(2, families.Gaussian())
    posterior = isotherm.Posterior(model.log_likelihood, model.log_prior)
    # All rows are a batch: without noise, SGHMC is right, and its loop is compiled soonest of those with momentum.
    sampler, start = isotherm.sghmc(0.02, friction=10.0), model.init(jax.random.key(0))
    tree = isotherm.sample(
        posterior, sampler, data, start, batch_size=60, replace=False, steps=3000, thin=4, chains=2, progress=False
    )
    return posterior, data, tree


def test_log_likelihoods_serve_arviz(fitted, tmp_path):
    posterior, data, tree = fitted
    predict(tree, posterior, data, log_likelihood=True, progress=False)
    values = tree["log_likelihood"]["y"]
    assert values.dims == ("chain", "draw", "row")
    params = {str(k): jnp.asarray(v.values[1, 5]) for k, v in tree["posterior"].data_vars.items()}
    expected = jax.vmap(posterior.log_likelihood, in_axes=(None, 0))(params, data)
    np.testing.assert_allclose(values[1, 5], expected, rtol=1e-5, atol=1e-6)
    loo = arviz_stats.loo(tree)
    assert 2 < loo.p < 8  # four parameters
    log_mean = np.logaddexp.reduce(values.values.reshape(-1, 60), axis=0) - np.log(values[..., 0].size)
    assert loo.elpd < log_mean.sum()  # what was not seen is predicted worse
    stored = tree.copy()
    del stored["log_likelihood"]
    predict(stored, posterior.log_likelihood, data, log_likelihood=True, store=tmp_path / "l.zarr", progress=False)
    assert arviz_stats.loo(stored).elpd == pytest.approx(loo.elpd, rel=1e-6)


def test_log_likelihoods_that_do_not_fit_want_a_store(fitted, monkeypatch):
    posterior, data, tree = fitted
    monkeypatch.setattr(prediction, "IN_MEMORY", 1000)
    with pytest.raises(ValueError, match="give store= to keep them on disk"):
        predict(tree, posterior, data, log_likelihood=True, progress=False)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"function": 3}, TypeError, "function must be a function"),
        (
            {"function": lambda p, e: p["nothing"]},
            ValueError,
            "does not fit the draws and the data: it raised KeyError",
        ),
        ({"function": lambda p, e: None}, ValueError, "is there a return missing"),
        (
            {"function": lambda p, e: jax.lax.complex(p["w"], p["w"])},
            TypeError,
            "must return real numbers, got dtype complex64",
        ),
        ({"data": {"x": np.array(["a"])}}, TypeError, r"data\['x'\] must hold numbers"),
        ({"data": {"x": np.zeros((3, 4)), "z": np.zeros(2)}}, ValueError, "same number of rows"),
        ({"data": {"x": np.float32(3)}}, ValueError, "must have one row an example"),
        ({"data": {}}, ValueError, "data holds no array"),
        ({"quantiles": (0.5, 1.5)}, ValueError, "quantiles must be between 0 and 1"),
        ({"draws": 0}, ValueError, "draws must be at least 1"),
        ({"log_likelihood": True}, ValueError, "one floating number for each example"),
        ({"init": {"w": np.zeros(4)}}, ValueError, "give init= as in the run"),
    ],
)
def test_refuses_bad_arguments_by_name(change, error, words):
    arguments = {"tree": made(), "function": lambda p, e: p["w"], "data": data_of(3), "progress": False} | change
    with pytest.raises(error, match=words):
        predict(**arguments)
