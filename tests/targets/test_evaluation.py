"""What a batch says at a position is what the posterior says there on the rows that were drawn."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.data.batches import Batches, ExtraBatch, make_table
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.noisy import estimate
from isotherm.targets.target import Target

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((200, 3)).astype(np.float32), "y": RNG.standard_normal(200).astype(np.float32)}
TARGET = Target(
    lambda theta, row: -0.5 * (row["y"] - row["x"] @ theta[1:] - theta[0]) ** 2, lambda theta: -0.5 * jnp.sum(theta**2)
)
POSITION = jnp.array([0.5, -1.0, 2.0, 0.25])  # offset, then slope


class Made(NamedTuple):
    evaluation: Evaluation
    batches: Batches
    data: dict


@pytest.fixture
def make():
    """A function that makes an evaluation, with its batches and data."""

    def made(*, batch_size=20, replace=True, probabilities=None):
        batches = Batches(200, batch_size, replace)
        table = None if probabilities is None else make_table(probabilities)
        return Made(Evaluation(TARGET, batches, table), batches, jax.tree.map(jnp.asarray, DATA))

    return made


@pytest.mark.parametrize("replace", [True, False])
def test_the_force_on_the_rows_that_were_drawn(make, replace):
    run = make(replace=replace)
    key = jax.random.key(3)
    noisy, next_key = run.evaluation.noisy(key, POSITION, run.data)
    batch_key, expected_key = jax.random.split(key)
    batch, _ = run.batches.take(batch_key, run.data)
    expected = estimate(TARGET, POSITION, batch, population=200, replace=replace)
    np.testing.assert_array_equal(noisy.force, expected.force)
    np.testing.assert_array_equal(noisy.covariance.dense(), expected.covariance.dense())
    assert noisy.curvature_ratio == expected.curvature_ratio
    assert (jax.random.key_data(next_key) == jax.random.key_data(expected_key)).all()


def test_the_force_on_rows_that_were_drawn_with_other_probabilities(make):
    p = np.linspace(1, 3, 200)
    run = make(probabilities=p)
    key = jax.random.key(3)
    noisy, _ = run.evaluation.noisy(key, POSITION, run.data, {"larger": ExtraBatch(10_000)})
    batch, weights = run.batches.take(jax.random.split(key)[0], run.data, run.evaluation.table)
    expected = estimate(TARGET, POSITION, batch, population=200, weights=weights)
    np.testing.assert_array_equal(noisy.force, expected.force)
    np.testing.assert_array_equal(noisy.covariance.dense(), expected.covariance.dense())
    larger = noisy.on("larger", POSITION)  # weighted too, and not all rows once each
    assert larger.sampling.share == 20 / 10_000
    difference = np.asarray(larger.force) - np.asarray(make(batch_size=200, replace=False).evaluation.noisy(
        key, POSITION, run.data)[0].force)  # fmt: skip
    sd = np.sqrt(larger.sampling.share * np.diag(larger.covariance.dense()))
    assert (abs(difference) < 5 * sd).all()


def test_all_rows_give_the_gradient_itself(make):
    """Of −½ Σ (y − x·slope − offset)² − ½|θ|², in double precision; the force adds 200 rows in single."""
    run = make(batch_size=200, replace=False)
    noisy, _ = run.evaluation.noisy(jax.random.key(0), POSITION, run.data)
    theta = np.float64(POSITION)
    design = np.concatenate([np.ones((200, 1)), DATA["x"]], axis=1)
    expected = design.T @ (DATA["y"] - design @ theta) - theta
    np.testing.assert_allclose(noisy.force, expected, rtol=1e-5, atol=1e-4)


def test_log_prior(make):
    np.testing.assert_allclose(
        make().evaluation.log_prior(POSITION), -0.5 * np.sum(np.float64(POSITION) ** 2), rtol=1e-6
    )


def test_it_is_a_constant_of_the_compiled_program(make):
    evaluation = make().evaluation
    assert hash(evaluation) == hash(evaluation)
    compiled = jax.jit(lambda evaluation, position: evaluation.log_prior(position), static_argnums=0)
    np.testing.assert_allclose(compiled(evaluation, POSITION), evaluation.log_prior(POSITION), rtol=1e-6)


EXTRA = {"small": ExtraBatch(7), "large": ExtraBatch(50)}


@pytest.mark.parametrize("probabilities", [None, np.linspace(1, 3, 200)])
def test_an_extra_batch_has_the_rows_of_its_name(make, probabilities):
    """Wherever it is evaluated, and whichever others there are; S is that of batches as large as the force's."""
    run, key, elsewhere = make(probabilities=probabilities), jax.random.key(3), POSITION + 1
    noisy, _ = run.evaluation.noisy(key, POSITION, run.data, EXTRA)
    rows = run.evaluation.row_numbers(key, EXTRA)
    for name, batch in EXTRA.items():
        assert rows[name].shape == (batch.rows,)
        weights = None if probabilities is None else run.evaluation.table.weights[rows[name]]
        columns = jax.tree.map(lambda column, name=name: column[rows[name]], run.data)
        expected = estimate(TARGET, elsewhere, columns, population=200, size=20, weights=weights)
        found = noisy.on(name, elsewhere)
        np.testing.assert_array_equal(found.force, expected.force)
        np.testing.assert_array_equal(found.covariance.dense(), expected.covariance.dense())
        np.testing.assert_array_equal(run.evaluation.row_numbers(key, {name: batch})[name], rows[name])
    assert (rows["small"] != rows["large"][:7]).any()
    assert (rows["small"] != rows["force"][:7]).any()


def test_a_batch_that_was_not_declared_is_refused(make):
    run = make()
    noisy, _ = run.evaluation.noisy(jax.random.key(3), POSITION, run.data, EXTRA)
    with pytest.raises(ValueError, match=r"'other', and its extra_batches declares \['small', 'large'\]"):
        noisy.on("other", POSITION)
    with pytest.raises(ValueError, match="must not declare 'force'"):
        run.evaluation.noisy(jax.random.key(3), POSITION, run.data, {"force": ExtraBatch(7)})
    bare = estimate(TARGET, POSITION, run.data, population=200)
    assert bare.on("other", POSITION) is bare  # a loop of one's own has no data to draw from
