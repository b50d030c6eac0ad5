"""`isotherm.anchor` as a whole: what it finds on small problems, and what it refuses, in a sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.targets.anchor import Candidate, Search
from isotherm.targets.forces import Noise
from isotherm.targets.newton import CannotAnchor

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3000, 3)).astype(np.float32)
Y = np.sign(X @ [1.0, -1.0, 0.5] + RNG.logistic(size=3000)).astype(np.float32)


def log_sigmoid(w, example):
    return jax.nn.log_sigmoid(example["y"] * (example["x"] @ w))


def flat_prior(w):
    return 0.0 * jnp.sum(w)


def normal_prior(w):
    return -0.5 * jnp.sum(w**2)


LOGISTIC = isotherm.Posterior(log_sigmoid, normal_prior)


@pytest.fixture(scope="module")
def found():
    return isotherm.anchor(LOGISTIC, {"x": X, "y": Y}, np.zeros(3, np.float32), progress=False)


def test_it_is_the_laplace_approximation(found, laplace):
    """The origin is as near to the mode as it says, to 0.3 standard deviations; LLᵀ is the covariance but for how much
    the curvature changes within that, some 0.3/√(N/d)·3 = 3 %."""
    mode, covariance = laplace(LOGISTIC, {"x": X, "y": Y}, np.zeros(3, np.float32))
    shift = np.asarray(found.coordinates.origin, np.float64) - mode
    distance = np.sqrt(shift @ np.linalg.solve(covariance, shift) / 3)
    assert distance < 0.3
    assert float(found.findings.distance) == pytest.approx(distance, abs=0.05)
    factor = np.asarray(found.coordinates.factor, np.float64)
    np.testing.assert_allclose(factor.T @ np.linalg.solve(covariance, factor), np.eye(3), atol=0.05)


def test_what_it_says_of_the_noise(found):
    """Plain batches of one row have S = N Σ‖Lᵀ∇ℓ_i‖² in trace; the anchored force is far less noisy."""
    factor, w = np.asarray(found.coordinates.factor, np.float64), np.asarray(found.coordinates.origin, np.float64)
    slopes = (Y / (1 + np.exp(Y * (X @ w))))[:, None] * X @ factor
    plain = 3000 * np.sum(slopes**2) / 3 / 2 / found.chosen_batch_size
    assert float(found.findings.plain_noise) == pytest.approx(plain, rel=0.1)  # by 32 random vectors: √(2/32/3000·…)
    assert found.findings.noise <= 0.1
    assert found.findings.noise < plain / 50
    assert found.findings.modes == 1
    assert found.findings.bend < 0.2


def test_gradient_and_hessian_are_sums_over_all_rows(found):
    """In float32 chunks of 3,000 rows: to 1e-5 of the sum of the terms' sizes."""
    factor, w = np.asarray(found.coordinates.factor, np.float64), np.asarray(found.coordinates.origin, np.float64)
    slopes = (Y / (1 + np.exp(Y * (X @ w))))[:, None] * X @ factor
    np.testing.assert_allclose(found.gradient, slopes.sum(axis=0), atol=1e-5 * np.abs(slopes).sum())
    assert (found.hessian is None) == (found.order == 1)


def test_rows_that_matter_are_drawn_more_often(found):
    """Those with the largest curvature s(1 − s)|Lᵀx|² at the mode; 32 random vectors know it to a quarter of itself."""
    factor, w = np.asarray(found.coordinates.factor, np.float64), np.asarray(found.coordinates.origin, np.float64)
    s = 1 / (1 + np.exp(-X @ w))
    leverage = s * (1 - s) * np.sum((X @ factor) ** 2, axis=1)
    share = 1 / np.float64(found.rows.weights)
    assert np.corrcoef(share, leverage)[0, 1] > 0.9
    np.testing.assert_allclose(share.mean(), 1, rtol=1e-4)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_anchor_and_another_seed_another(found):
    again, other = (
        isotherm.anchor(LOGISTIC, {"x": X, "y": Y}, np.zeros(3, np.float32), seed=seed, progress=False)
        for seed in (0, 1)
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (np.asarray(found.rows.weights) != np.asarray(other.rows.weights)).any()


@pytest.mark.parametrize(
    ("sizes", "order"),
    [((700, 400), 1), ((900, 400), 2), ((800, 700), 2), ((900, 800, 850), 1), ((900, 800, 600), 2), ((9000, 9000), 1)],
    ids=[
        "the first is cheaper",
        "the second is cheaper",
        "the first takes too many rows",
        "both do",
        "the second does not on a longer look",
        "both take more than there are",
    ],
)
def test_which_order_is_taken(monkeypatch, sizes, order):
    """That of the least cost, where a step of the second order costs two; but no batch of more than a quarter of 3,000
    rows, if there is another way. Of heavy-tailed noise a few positions may say too much, so more are looked at."""
    left = list(sizes)

    def candidate(self, anchored, positions=32):
        assert (anchored.order, positions) == [(1, 32), (2, 32), (2, 128)][len(sizes) - len(left)]
        return Candidate(anchored.order, Noise(0.0, 0.0), left.pop(0))

    monkeypatch.setattr(Search, "candidate", candidate)
    found = isotherm.anchor(LOGISTIC, {"x": X, "y": Y}, np.zeros(3, np.float32), progress=False)
    assert not left
    assert (found.order, found.chosen_batch_size) == (order, sizes[0] if order == 1 else sizes[-1])


def test_repr(found):
    said = repr(found)
    assert said.startswith(f"<anchored posterior: 3 parameters, 3,000 rows; order {found.order}, batch_size ")
    assert f"after {float(found.findings.passes):.1f} passes over the data>" in said


@pytest.mark.slow
def test_it_can_be_anchored_again_without_a_start(found):
    """And then begins at a typical draw of what it is."""
    again = isotherm.anchor(found, {"x": X, "y": Y}, seed=3, progress=False)
    np.testing.assert_allclose(
        found.position(np.asarray(again.coordinates.origin)), 0, atol=1.0
    )  # both within 0.3 of the mode


def separable():
    return log_sigmoid, flat_prior, {"x": X, "y": np.sign(X @ np.float32([1, -1, 0.5]))}


def column_of_zeros():
    return log_sigmoid, flat_prior, {"x": X * np.float32([1, 0, 1]), "y": Y}


def collinear():
    return log_sigmoid, flat_prior, {"x": np.stack([X[:, 0], X[:, 1], X[:, 0] + X[:, 1]], axis=1), "y": Y}


def not_finite_at_the_start():
    return lambda w, e: jnp.log(w[0]) * e["y"], normal_prior, {"x": X, "y": Y}


def without_second_derivatives():
    return lambda w, e: -jnp.sum(jnp.abs(w - e["x"]) ** 1.5), normal_prior, {"x": np.zeros_like(X), "y": Y}


@pytest.mark.parametrize(
    ("model", "said", "is_fault"),
    [
        (separable, r"the log posterior .* Give log_prior a finite variance", True),
        (column_of_zeros, r"flat along a direction in which theta\[1\] changes most: a column that is zero", True),
        pytest.param(
            collinear,
            r"flat along a direction in which theta\[[012]\] changes most: .*or follows from others",
            True,
        ),
        (without_second_derivatives, "the second derivatives of the log posterior are not finite on the way", False),
    ],
)
def test_refused(model, said, is_fault):
    log_likelihood, log_prior, data = model()
    with pytest.raises(CannotAnchor, match=said) as told:
        isotherm.anchor(isotherm.Posterior(log_likelihood, log_prior), data, np.zeros(3, np.float32), progress=False)
    assert told.value.is_fault == is_fault
    assert "\n" not in str(told.value)


def test_a_start_where_the_density_is_not_finite():
    log_likelihood, log_prior, data = not_finite_at_the_start()
    with pytest.raises(ValueError, match=r"log_likelihood must be finite where the chains start, got .*inf at init"):
        isotherm.anchor(isotherm.Posterior(log_likelihood, log_prior), data, np.zeros(3, np.float32), progress=False)


@pytest.mark.slow
def test_a_prior_makes_any_of_them_a_posterior(laplace):
    """A column of zeros that has a prior of finite variance."""
    _, _, data = column_of_zeros()
    found = isotherm.anchor(LOGISTIC, data, np.zeros(3, np.float32), progress=False)
    factor = np.asarray(found.coordinates.factor, np.float64)
    np.testing.assert_allclose((factor @ factor.T)[1], [0, 1, 0], atol=0.01)


def test_more_parameters_than_matrices_are_made_for():
    posterior = isotherm.Posterior(lambda w, x: -0.5 * jnp.sum((w - x) ** 2), normal_prior)
    with pytest.raises(CannotAnchor, match=r"the model has 1,025 parameters, and anchoring needs d×d .* up to 1,024"):
        isotherm.anchor(posterior, np.zeros((10, 1025), np.float32), np.zeros(1025, np.float32), progress=False)


def test_a_custom_vjp_is_refused_in_words():
    @jax.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, g: (2 * x * g,))
    posterior = isotherm.Posterior(lambda w, e: -square(e["y"] - e["x"] @ w), normal_prior)
    with pytest.raises(CannotAnchor, match=r"cannot be differentiated twice, .* with a jax\.custom_vjp") as told:
        isotherm.anchor(posterior, {"x": X, "y": Y}, np.zeros(3, np.float32), progress=False)
    assert not told.value.is_fault  # plain eccadl needs no second derivatives


def test_an_error_in_a_second_derivative_is_raised():
    """It once was taken for a model that cannot be differentiated twice."""

    @jax.custom_jvp
    def slope(x):
        return 2 * x

    @slope.defjvp
    def _(primals, tangents):
        raise ValueError("2 is not a slope")

    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda primals, tangents: (square(primals[0]), slope(primals[0]) * tangents[0]))
    posterior = isotherm.Posterior(lambda w, e: -square(e["y"] - e["x"] @ w), normal_prior)
    with pytest.raises(ValueError, match="2 is not a slope"):
        isotherm.anchor(posterior, {"x": X, "y": Y}, np.zeros(3, np.float32), progress=False)


def test_bad_arguments():
    data = {"x": X, "y": Y}
    with pytest.raises(TypeError, match=r"posterior must be an isotherm\.Posterior, got function"):
        isotherm.anchor(log_sigmoid, data, np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="init must be given"):
        isotherm.anchor(LOGISTIC, data)
    with pytest.raises(ValueError, match=r"seed .*got -1"):
        isotherm.anchor(LOGISTIC, data, np.zeros(3, np.float32), seed=-1)
    with pytest.raises(ValueError, match="data must hold at least one row"):
        isotherm.anchor(LOGISTIC, {"x": X[:0], "y": Y[:0]}, np.zeros(3, np.float32))


@pytest.mark.slow
def test_a_level_that_few_rows_lack_is_no_flat_direction():
    """With a flat prior, 2,000 rows without a level say nothing of it; all rows do."""
    rng = np.random.default_rng(0)
    level = np.where(np.arange(30_000) % 6_000 == 17, 2, rng.integers(0, 2, 30_000)).astype(np.int32)
    data = {"level": level, "y": (rng.standard_normal(30_000) + level).astype(np.float32)}
    posterior = isotherm.Posterior(
        lambda theta, row: -0.5 * (row["y"] - theta[row["level"]]) ** 2, lambda theta: 0.0 * jnp.sum(theta)
    )
    anchored = isotherm.anchor(posterior, data, jnp.zeros(3), progress=False)
    means = [data["y"][level == each].mean() for each in range(3)]
    errors = 1 / np.sqrt(np.bincount(level))
    assert (abs(np.asarray(anchored.coordinates.origin) - means) < 0.6 * errors).all()  # NEAR, over three directions
