"""Bad input gets clear words before anything is compiled."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pandas as pd
import pytest

import isotherm
from isotherm.run.assemble import RunSettings, assemble
from isotherm.targets import checks
from isotherm.targets.checks import check_data
from isotherm.targets.parameters import is_function

X = np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2)
Y = np.ones(6, np.float32)
DATA = {"x": X, "y": Y}
ZEROS = np.zeros(2, np.float32)
RUN = {"batch_size": 3, "replace": True, "chains": 1, "seed": 0, "name": None}


def log_likelihood(theta, example):
    return -0.5 * (example["y"] - example["x"] @ theta) ** 2


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


@pytest.fixture(autouse=True)
def _no_types_are_checked():
    """As users have it: the words are the package's own, not those of the type checker in `tests/conftest.py`."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch):
    def compiled(*_, **__):
        raise AssertionError("work was begun")

    monkeypatch.setattr("isotherm.run.chains.start", compiled)
    monkeypatch.setattr("isotherm.run.chains.advance_on_one_thread", compiled)


def sample(posterior=POSTERIOR, sampler=None, data=DATA, init=ZEROS, **settings):
    settings = {"batch_size": 3, "steps": 100} | settings
    return isotherm.sample(posterior, sampler or isotherm.sgld(0.1), data, init, progress=False, **settings)


def with_entry(array, index, value):
    array = array.copy()
    array[index] = value
    return array


SETTINGS = [
    ({"steps": None}, ValueError, "steps=None and passes=None"),
    ({"passes": 3}, ValueError, "steps=100 and passes=3"),
    ({"steps": 0}, ValueError, "steps .*got 0"),
    ({"steps": 10.5}, TypeError, r"steps .*got 10\.5"),
    ({"steps": None, "passes": -1.0}, ValueError, r"passes .*got -1\.0"),
    ({"burn_in": 1.0}, ValueError, r"burn_in must be a fraction .* at least 0 and less than 1, got 1\.0"),
    ({"burn_in": -0.1}, ValueError, r"burn_in must be a fraction .*, got -0\.1"),
    ({"burn_in": np.nan}, ValueError, "burn_in must be finite"),
    ({"batch_size": 0}, ValueError, "batch_size .*got 0"),
    ({"batch_size": 7, "replace": False}, ValueError, "batch_size .* got 7"),
    ({"thin": 0}, ValueError, "thin .*got 0"),
    ({"thin": 81}, ValueError, "thin=81 .* 80 steps"),
    ({"chains": 0}, ValueError, "chains .*got 0"),
    ({"seed": -1}, ValueError, "seed .*got -1"),
    ({"seed": "today"}, TypeError, "seed .*got 'today'"),
]


@pytest.mark.parametrize(("settings", "error", "message"), SETTINGS, ids=[str(s[0]) for s in SETTINGS])
def test_settings(settings, error, message):
    with pytest.raises(error, match=message):
        sample(**settings)


ARRAYS = [
    ({"x": X, "y": Y[:5]}, ValueError, r"same number of rows, but data\['x'\] has 6, data\['y'\] has 5"),
    ({"x": with_entry(X, (4, 1), np.nan), "y": Y}, ValueError, r"data\['x'\] must be finite, got nan in row 4, "
        "column 1; drop or fill"),
    ({"x": X, "y": with_entry(Y, 2, -np.inf)}, ValueError, r"data\['y'\] .*got -inf in row 2"),
    ({"x": X, "y": np.array(list("abcdef"))}, TypeError, r"data\['y'\] must hold numbers, got dtype <U1"),
    ({"x": X, "y": np.float32(1)}, ValueError, r"data\['y'\] must have one row an example, got the scalar 1"),
    ({"x": X[:0], "y": Y[:0]}, ValueError, "data must hold at least one row"),
    ({}, ValueError, "data holds no array"),
    ({"x": X, "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, ValueError, r"data\['y'\]\[0\] must have one row an example, got "
        r"the scalar 1\.0; make the list an array: np\.asarray"),
    ({"x": X, "y": Y.astype(complex)}, TypeError, r"data\['y'\] must hold numbers, got dtype complex128"),
    ({"x": X, "y": {1, 2}}, TypeError, r"data\['y'\] must be an array of numbers, got a set"),
    ({"x": X, "y": np.arange(6) + 2**33}, ValueError, r"data\['y'\] has 8589934597, which int32 cannot hold; "
        "recode it, or let JAX have 64 bits"),
    ({"x": X, "y": np.float64(Y) * 1e300}, ValueError, r"data\['y'\] has 1e\+300, which float32 cannot hold; rescale"),
    ({"x": np.float64(X) + np.array([0, 1e8]), "y": Y}, ValueError, r"data\['x'\], column 1, is rounded by up to "),
]  # fmt: skip


@pytest.mark.parametrize(("data", "error", "message"), ARRAYS, ids=[m for *_, m in ARRAYS])
def test_data(data, error, message):
    with pytest.raises(error, match=message):
        sample(data=data)


INITS = [
    (np.zeros(2, int), TypeError, "init must be a floating array, got dtype int64; .* write 0.0 rather than 0"),
    ({"w": [0, 0]}, TypeError, r"init\['w'\]\[0\] must be a floating array"),
    (np.array([0, np.nan], np.float32), ValueError, "init .*got nan in entry 1"),
    (np.zeros(3, np.float32), ValueError, r"log_likelihood does not fit: init has an array of shape \(3,\) and one "
        r"example has \['x'\] of shape \(2,\), \['y'\] of shape \(\)"),
    (np.zeros((2, 0), np.float32), ValueError, r"init must have at least one entry, got shape \(2, 0\); leave it out"),
    ({"w": ZEROS, "act": jnp.tanh}, TypeError, r"init\['act'\] must be an array of numbers, got the function tanh; "
        "keep functions apart"),
    ({}, ValueError, "init holds no array"),
    (None, TypeError, "init must be given: the parameters to start from, such as zeros of their shapes"),
]  # fmt: skip


@pytest.mark.parametrize(("init", "error", "message"), INITS, ids=[m for *_, m in INITS])
def test_init(init, error, message):
    with pytest.raises(error, match=message):
        sample(init=init)


def test_functions():
    with pytest.raises(TypeError, match=r"log_likelihood must be a function \(params, example\) -> scalar, got 3"):
        isotherm.Posterior(3, log_prior)
    with pytest.raises(TypeError, match=r"log_prior must be a function"):
        isotherm.Posterior(log_likelihood, None)
    with pytest.raises(TypeError, match=r"posterior must be an isotherm\.Posterior, got function"):
        sample(posterior=log_likelihood)
    vector = isotherm.Posterior(lambda t, e: e["x"] * t, log_prior)
    with pytest.raises(ValueError, match=r"log_likelihood must return a scalar for one example, got .* \(2,\); sum"):
        sample(posterior=vector)
    with pytest.raises(ValueError, match=r"log_prior must return a scalar, got .* \(2,\); sum over what is left"):
        sample(posterior=isotherm.Posterior(log_likelihood, lambda theta: -(theta**2)))
    with pytest.raises(TypeError, match="log_likelihood must return a floating number, got dtype int32"):
        sample(posterior=isotherm.Posterior(lambda t, e: jnp.zeros((), jnp.int32), log_prior))


def test_a_sampler_is_a_sampler():
    with pytest.raises(TypeError, match=r"sampler must be a sampler such as isotherm.mccadl\(step_size=1e-3\), got"):
        sample(sampler=isotherm.mccadl)
    with pytest.raises(TypeError, match=r"sampler must be a sampler .*, got 'mccadl'"):
        sample(sampler="mccadl")


def test_integers_stay_in_the_data():
    """Integer and boolean data are as good as any."""
    with pytest.raises(AssertionError, match="work was begun"):
        sample(data={"x": X, "y": np.ones(6, bool)}, posterior=isotherm.Posterior(
            lambda t, e: jnp.where(e["y"], e["x"] @ t, jnp.zeros(())), log_prior))  # fmt: skip
    assert jax.config.jax_numpy_dtype_promotion == "strict"


class WithArray:
    """What a column of some other library looks like to NumPy."""

    def __array__(self, dtype=None, copy=None):
        return Y


def test_what_numpy_takes_for_an_array_is_one():
    with pytest.raises(AssertionError, match="work was begun"):
        sample(data={"x": X, "y": WithArray()})


def test_a_table_with_text_names_the_column():
    table = pd.DataFrame({"age": [1.0, 2.0], "city": ["Ulm", "Bonn"]})
    with pytest.raises(TypeError, match=r"data\['x'\]: column 'city' must hold numbers, got dtype .*; encode it"):
        sample(data={"x": table, "y": Y})


TABLES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "an Arrow stream": lambda columns: pytest.importorskip("pyarrow").table(columns).to_reader(),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_is_a_dict_of_its_columns(table):
    columns = {"age": [1.5, 2.0], "children": [3, 0], "member": [True, False]}
    found = checks.as_arrays("data", table(columns))
    assert list(found) == list(columns)
    for name, column in columns.items():
        assert found[name].dtype == np.asarray(column).dtype
        np.testing.assert_array_equal(found[name], column)
    inside = checks.as_arrays("data", {"x": table(columns)})
    np.testing.assert_array_equal(inside["x"], [[1.5, 3, 1], [2, 0, 0]])
    with pytest.raises(TypeError, match=r"^data: column 'city' must hold numbers, got dtype \w+; encode it as numbers"):
        checks.as_arrays("data", table({"age": [1.0, 2.0], "city": ["Ulm", "Bonn"]}))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_what_is_missing_in_a_table_is_named(table):
    with pytest.raises(ValueError, match=r"data\['age'\] .*got nan in row 1"):
        checks.check_data(checks.as_arrays("data", table({"age": [1, None]})))


def test_two_columns_of_one_name():
    with pytest.raises(ValueError, match="data has two columns named 'a'; rename one"):
        checks.as_arrays("data", pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]))


def test_an_arrow_stream_without_pyarrow(monkeypatch):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("nobody reads it")

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="data is a Stream, and reading it needs pyarrow: pip install"):
        checks.as_arrays("data", Stream())


def test_numbers_that_32_bits_hold_well_enough_are_taken():
    """Ordinary float64 columns, times in seconds since 1970 over a year, identifiers below 2³¹."""
    rng = np.random.default_rng(0)
    for column in (rng.standard_normal(6), 1.7e9 + 3e7 * rng.random(6), np.full(6, 0.1), np.arange(6) + 2**30):
        check_data({"y": column})


def test_a_function_that_cannot_be_differentiated_over_a_batch():
    def with_callback(theta, example):
        return jax.pure_callback(lambda x: np.float32(x.sum()), jax.ShapeDtypeStruct((), np.float32), theta)

    with pytest.raises(ValueError, match=r"log_likelihood or log_prior cannot be differentiated .* callbacks"):
        sample(posterior=isotherm.Posterior(with_callback, log_prior))


def test_a_module_with_parameters_is_no_function():
    """Equinox's modules are callable, and JAX sees their arrays."""
    linear = eqx.nn.Linear(2, "scalar", key=jax.random.key(0))
    posterior = isotherm.Posterior(
        lambda model, example: -((example["y"] - model(example["x"])) ** 2),
        lambda model: -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(model)),
    )
    assert not is_function(linear)
    assert is_function(lambda key: linear)
    assert is_function(jax.tree_util.Partial(lambda a, key: a, jnp.zeros(2)))
    with pytest.raises(AssertionError, match="work was begun"):
        sample(posterior=posterior, init=linear)
    mlp = eqx.nn.MLP(2, "scalar", 3, 1, key=jax.random.key(0))
    with pytest.raises(TypeError, match=r"init\.activation.* must be an array of numbers, got the function"):
        sample(init=mlp)
    params, static = eqx.partition(mlp, eqx.is_inexact_array)
    partitioned = isotherm.Posterior(
        lambda params, example: -((example["y"] - eqx.combine(params, static)(example["x"])) ** 2), posterior.log_prior
    )
    with pytest.raises(AssertionError, match="work was begun"):
        sample(posterior=partitioned, init=params)


def test_an_integer_that_jax_would_differentiate_by():
    """The item-response model that ended in `float0`: xlogy has a derivative by its integer, too."""
    data = {"x": X, "y": np.ones(6, np.int32)}
    posterior = isotherm.Posterior(lambda t, e: jax.scipy.special.xlogy(e["y"], jnp.exp(t[0])), log_prior)
    with jax.numpy_dtype_promotion("standard"), pytest.raises(TypeError, match=r"integer column .* make it floating"):
        sample(posterior=posterior, data=data)


def test_a_loop_that_changes_its_dtype():
    """JAX says which in its second line. With x64 it is what float32 data and float64 parameters make of many loops."""

    def looped(theta, example):
        return jax.lax.fori_loop(0, 3, lambda _, z: z * theta[0], jnp.float16(1))

    words = r"log_likelihood does not fit.* equal types, but they differ: The input carry .* has type float16"
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match=words):
        sample(posterior=isotherm.Posterior(looped, log_prior))


PRIORS = {
    "whole number": (lambda theta: 0, r"must return a floating number, got dtype int32; write 0\.0 rather than 0"),
    "complex number": (lambda theta: 1j, r"must return a floating number, got dtype complex64; take its real part"),
    "nothing": (lambda theta: None, r"must return a scalar, got nothing; is there a return missing\?"),
    "vector": (lambda theta: theta, r"must return a scalar, got an array of shape \(2,\); sum over what is left"),
}


@pytest.mark.parametrize(("log_prior", "words"), PRIORS.values(), ids=PRIORS.keys())
def test_log_priors_that_return_no_floating_scalar(log_prior, words):
    with pytest.raises((TypeError, ValueError), match=f"log_prior {words}$"):
        sample(posterior=isotherm.Posterior(log_likelihood, log_prior))


def test_a_number_among_the_columns():
    words = r"data\['sigma'\] must have one row an example, got the scalar 0\.5; keep it in log_likelihood$"
    with pytest.raises(ValueError, match=words):
        sample(data=DATA | {"sigma": 0.5})


def test_a_column_of_categories():
    words = r"data\['kind'\] must be an array of numbers, got a Series; encode it as numbers first"
    with pytest.raises(TypeError, match=words):
        sample(data=DATA | {"kind": pd.Series(["a", "b"] * 3, dtype="category")})


def test_arrays_that_are_none():
    masked = np.ma.masked_array(Y, mask=[0, 1, 0, 0, 0, 0])
    with pytest.raises(TypeError, match=r"data\['y'\] must be a plain array, got a masked one; fill what is masked"):
        sample(data={"x": X, "y": masked})
    with pytest.raises(
        TypeError, match=r"init\['key'\] must be an array of numbers, got a random key; keep keys apart"
    ):
        sample(init={"w": ZEROS, "key": jax.random.key(0)})


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="here a long double is a double")
def test_long_doubles_which_jax_does_not_have():
    with pytest.raises(TypeError, match=r"data\['y'\] must have at most 64 bits, got dtype float128; convert it:"):
        sample(data={"x": X, "y": Y.astype(np.longdouble)})
    with pytest.raises(TypeError, match=r"init must have at most 64 bits, got dtype float128"):
        sample(init=ZEROS.astype(np.longdouble))
    with pytest.raises(TypeError, match=r"init\['w'\] must have at most 64 bits, got dtype float128"):
        sample(init={"w": np.longdouble(0)})


def test_the_other_byte_order_is_turned_into_this_machines():
    """FITS files and old Fortran programs have it."""
    swapped = {name: column.astype(column.dtype.newbyteorder()) for name, column in DATA.items()}
    run = assemble(POSTERIOR, isotherm.sgld(0.1), swapped, ZEROS.astype(">f4"), RunSettings(**RUN))
    jax.tree.map(np.testing.assert_array_equal, run.data, DATA)
    assert run.starts.dtype == np.float32
    table = pd.DataFrame({"x": Y.astype(">f4")})
    posterior = isotherm.Posterior(lambda t, row: t @ row["x"], log_prior)
    run = assemble(posterior, isotherm.sgld(0.1), {"x": table}, ZEROS[:1], RunSettings(**RUN))
    np.testing.assert_array_equal(run.data["x"], Y[:, None])


def test_a_function_that_cannot_be_hashed():
    class Unhashable:
        __hash__ = None

        def __call__(self, theta, example):
            return log_likelihood(theta, example)

    with pytest.raises(TypeError, match=r"log_likelihood must be hashable.*; give a function, or give its class"):
        sample(posterior=isotherm.Posterior(Unhashable(), log_prior))


def densities(rows, wrong):
    """Of so many rows, some of which have no logarithm."""
    data = np.ones((rows, 1), np.float32)
    data[wrong] = -1
    posterior = isotherm.Posterior(lambda theta, x: jnp.log(x[0]) + theta[0], lambda theta: theta[0])
    run = assemble(posterior, isotherm.sgld(1e-3), data, ZEROS[:1], RunSettings(**(RUN | {"chains": 2})))
    return run, (run.evaluation, run.starts, run.data)


@pytest.mark.parametrize("rows", [3, 256, 700, 1024])
def test_rows_without_a_finite_density_are_counted_once(rows):
    """In blocks of 256 rows, of which the last begins inside the one before it."""
    wrong = sorted({0, rows - 2, rows - 1} | {row for row in (255, 256, 500) if row < rows})
    for some in (wrong, wrong[1:], wrong[-1:]):
        _, row, bad, value = checks._densities_at_start(*densities(rows, some)[1])
        assert (int(row), int(bad)) == (some[0], len(some))
        assert np.isnan(value)
    assert int(checks._densities_at_start(*densities(rows, [])[1])[2]) == 0


def test_looking_at_the_start_takes_no_memory_that_grows_with_the_rows():
    """Blocks of 256 rows; a number a row would be 400,000 bytes."""
    arguments = densities(100_000, [])[1]
    assert checks._densities_at_start.lower(*arguments).compile().memory_analysis().temp_size_in_bytes < 100_000
