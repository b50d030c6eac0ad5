"""Effects: levels of columns, and the density against one written out."""

import jax
import numpy as np
import pytest
from scipy import stats

import isotherm
from isotherm import Effect, Posterior
from isotherm.targets.effects import correlation_root, levels_of, log_lkj
from isotherm.targets.user import with_defaults

from .effect_models import INIT, MODELS, normal, rows


@pytest.fixture(scope="module")
def data():
    return rows()


def bound(name, data):
    with jax.enable_x64(True):
        target, columns, init = with_defaults(MODELS[name], data, INIT)
        rng = np.random.default_rng(1)
        params = {key: np.asarray(value) + 0.3 * rng.standard_normal(np.shape(value)) for key, value in init.items()}
        return target, columns, params


def half_normal(sd, scale):
    return np.sum(stats.halfnorm.logpdf(sd, scale=scale) + np.log(sd))  # of log sd


PRIORS = {
    "scalar": lambda p, sd: normal(p["school"], sd("school")) + half_normal(sd("school"), 1),
    "crossed": lambda p, sd: (
        (normal(p["school"], sd("school")) + half_normal(sd("school"), 0.5) + normal(p["day"], sd("day")))
        + half_normal(sd("day"), 1)
    ),
    "slopes": lambda p, sd: (
        (normal(p["school"], sd("school")) + half_normal(sd("school"), 1) + normal(p["day"], sd("day")))
        + half_normal(sd("day"), 1)
    ),
    "student": lambda p, sd: (
        stats.t.logpdf(p["school"] / sd("school"), 4).sum()
        - 15 * np.log(sd("school"))
        + half_normal(sd("school"), 1)
        + normal(p["day"], 0.7)
    ),
    "own_prior": lambda p, sd: (
        normal(p["school"], sd("school"))
        - sd("school")
        + np.log(sd("school"))
        + normal(p["day"], sd("day"))
        - 2 * np.log1p(sd("day"))
        + np.log(sd("day"))
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_prior(name, data):
    target, _, p = bound(name, data)
    with jax.enable_x64(True):
        expected = PRIORS[name](p, lambda effect: np.exp(p["log_sd_" + effect])) - 0.5 * (p["a"] ** 2 + p["b"] ** 2)
        assert float(target.log_prior(p)) == pytest.approx(expected, rel=1e-12)


def test_correlated_prior(data):
    """The density of levels is that of N(0, Σ), and all else as written out."""
    target, _, p = bound("correlated", data)
    with jax.enable_x64(True):
        sd, rho = np.exp(p["log_sd_school"]), np.tanh(p["corr_school"][0])
        cov = np.outer(sd, sd) * np.array([[1, rho], [rho, 1]])
        expected = stats.multivariate_normal.logpdf(p["school"], cov=cov).sum() + half_normal(sd, 1)
        expected += np.log(1 - rho**2) - 0.5 * (p["a"] ** 2 + p["b"] ** 2)  # uniform ρ, of which atanh is sampled
        assert float(target.log_prior(p)) == pytest.approx(expected, rel=1e-12)


def test_lkj_is_uniform_over_correlation_matrices():
    """With three components LKJ(1) is det(R)⁰: the density of the free numbers is the Jacobian of the correlations."""
    with jax.enable_x64(True):

        def correlations(free):
            root = correlation_root(free, 3)
            matrix = root @ root.T
            return jax.numpy.stack([matrix[1, 0], matrix[2, 0], matrix[2, 1]])

        points = np.random.default_rng(0).standard_normal((5, 3))
        sizes = [np.linalg.slogdet(np.asarray(jax.jacfwd(correlations)(x)))[1] - log_lkj(x, 3) for x in points]
        assert np.ptp(sizes) < 1e-10


def test_rows_see_their_own_levels(data):
    target, columns, p = bound("twice", data)
    labels = np.unique(np.concatenate([data["home"], data["away"]]))
    team = dict(zip(labels, p["team"], strict=True))
    with jax.enable_x64(True):
        for i in (0, 17, 239):
            row = jax.tree.map(lambda column, i=i: column[i], columns)
            eta = p["a"] + p["b"] * data["x"][i] + team[data["home"][i]] - team[data["away"][i]]
            expected = data["y"][i] * eta - np.logaddexp(0, eta)
            assert float(target.log_likelihood(p, row)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("column", "labels", "codes"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"], [1, 0, 1]),
        (np.array([7, -3, 7]), [-3, 7], [1, 0, 1]),
        (np.array([2**40, 5, 2**40]), [5, 2**40], [1, 0, 1]),
        (np.array([0.5, 0.25, 0.5]), [0.25, 0.5], [1, 0, 1]),
        (np.array([True, False, True]), [False, True], [1, 0, 1]),
        (
            np.array(["2020-01-02", "2020-01-01"], "M8[D]"),
            list(np.array(["2020-01-01", "2020-01-02"], "M8[D]")),
            [1, 0],
        ),
        (np.array(["x", "x"], object), ["x"], [0, 0]),
    ],
)
def test_levels(column, labels, codes):
    found, numbers = levels_of("e", Effect("c"), {"c": column})
    assert list(found) == labels
    assert list(numbers) == codes
    assert numbers.dtype == np.int32


def test_levels_of_two_columns():
    columns = {"school": np.array(["b", "a", "b"]), "class": np.array([1, 1, 2])}
    labels, codes = levels_of("e", Effect("school:class"), columns)
    assert list(labels) == ["a:1", "b:1", "b:2"]
    assert list(codes) == [1, 0, 2]


MODEL = MODELS["scalar"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"school": np.where(np.arange(240) == 7, np.nan, 1.0)},
            "column 'school' has no label in row 7",
        ),
        ({"school": np.array([None] * 240)}, "column 'school' has no label in row 0 and 239 others"),
        ({"school": np.zeros((240, 2))}, "must have one label a row, got shape"),
        ({"school": np.zeros(3)}, "must have the same number of rows"),
    ],
)
def test_bad_columns(change, message, data):
    with pytest.raises(ValueError, match="(?s)" + message.replace("(", r"\(")):
        isotherm.fit(MODEL, data | change, {"a": 0.0, "b": 0.0}, progress=False)


def test_missing_column(data):
    less = {name: column for name, column in data.items() if name != "school"}
    with pytest.raises(ValueError, match="effect 'school': data has no column 'school'; it has 'x', 'y'"):
        isotherm.fit(MODEL, less, INIT, progress=False)


def test_init_must_be_a_dict(data):
    with pytest.raises(TypeError, match="init must be a dict, to which effects are added by name, got ndarray"):
        isotherm.fit(MODEL, data, np.zeros(2), progress=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": ()}, r"by must be the name of a column or a tuple of names, got \(\)"),
        ({"by": "c", "size": 0}, "size must be at least 1, got 0"),
        ({"by": "c", "correlated": True}, "correlated=True needs a size of at least 2, got size=None"),
        ({"by": "c", "size": 2, "correlated": True, "df": 3.0}, "leave out scale and df"),
        ({"by": "c", "scale_prior": -1.0}, "scale_prior must be positive, got -1.0"),
        ({"by": "c", "df": 0.0}, "df must be positive, got 0.0"),
    ],
)
def test_bad_effects(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Effect(**arguments)


def test_names_of_effects():
    with pytest.raises(TypeError, match=r"effects must be a dict of isotherm.Effect by name, got 'a b': Effect"):
        Posterior(lambda p, r: 0.0, lambda p: 0.0, effects={"a b": Effect("c")})
