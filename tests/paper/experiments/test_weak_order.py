"""The bias measurement: the known covariance is the batch's on average, slopes are found."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.paper.experiments import weak_order
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target


def test_the_known_covariance_is_what_batches_estimate():
    x = jnp.asarray(weak_order.data())
    theta = jnp.zeros(weak_order.D)
    target = as_target(weak_order.POSTERIOR)
    known = weak_order.with_known_covariance(estimate(target, theta, x[:10], population=weak_order.N)).covariance
    np.testing.assert_allclose(known.dense(), weak_order.known_covariance(), rtol=1e-4, atol=1)
    v = jax.random.normal(jax.random.key(0), theta.shape)
    np.testing.assert_allclose(known.matvec(v), known.dense() @ v, rtol=1e-4)
    whole = estimate(target, theta, x, population=weak_order.N).covariance.dense()
    # All rows as one batch: the same up to n and the divisor N − 1.
    scale = weak_order.N / weak_order.BATCH
    np.testing.assert_allclose(scale * whole, known.dense(), rtol=2e-3, atol=20)


def test_slope_of_a_power_law():
    h = [0.1, 0.2, 0.4]
    order, error = weak_order.slope(h, [x**2 for x in h], [1e-4] * 3)
    assert abs(order - 2) < 1e-9
    assert error < 0.02
    assert math.isnan(weak_order.slope(h, [1e-5] * 3, [1e-4] * 3)[0])


@pytest.mark.slow
def test_a_short_run_has_a_small_bias_at_a_small_step():
    found = weak_order.bias("mccadl-known", weak_order.STEP_SIZES[2], 2000)
    assert found["first_bad_step"] is None
    assert abs(found["metrics"]["relative_bias"]) < 5 * found["metrics"]["standard_error"] < 0.5
