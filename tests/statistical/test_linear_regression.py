"""Noisy gradients, exact posterior: the paper's first experiment."""

import numpy as np
import pytest

import isotherm
from isotherm.models import Linear
from isotherm.paper.datasets import linear_regression
from isotherm.paper.experiments.moments import gaussian_w2

pytestmark = pytest.mark.slow

d, n = 100, 500
DATA = linear_regression.make(N=10_000, d=d, seed=0, scale=0.1).data
EXACT = linear_regression.posterior(DATA, prior_variance=10.0)
MODEL = Linear(d, prior_variance=10.0)
POSTERIOR = isotherm.Posterior(MODEL.log_likelihood, MODEL.log_prior)


def run(sampler, passes=400, thin=1):
    return isotherm.sample(
        POSTERIOR, sampler, DATA, np.zeros(d, np.float32), batch_size=n, passes=passes, chains=1, thin=thin,
        progress=False,
    )  # fmt: skip


def widening(tree):
    """Trace of the covariance over the exact one. One chain of 8,000 steps knows it to about 1 %: d = 100 variances,
    each from some 200 independent draws."""
    return float(tree.posterior_variance.theta.sum() / np.trace(EXACT.covariance))


def test_mccadl_is_right_where_sghmc_is_far_off():
    assert abs(widening(run(isotherm.mccadl(1e-3, 1.0))) - 1) < 0.05
    assert widening(run(isotherm.sghmc(1e-3, 1.0))) > 10


def test_msgld_is_closer_than_sgld():
    """η²S is 100 % of 2η at this step for SGLD; mSGLD takes out the first order and leaves half of it here."""
    sgld, msgld = (widening(run(sampler(1e-5))) for sampler in (isotherm.sgld, isotherm.msgld))
    assert 1 < msgld < sgld
    assert msgld - 1 < 0.7 * (sgld - 1)


def test_at_the_largest_step_of_the_paper_mccadl_stays_and_ccadl_goes():
    with pytest.warns(RuntimeWarning, match=r"diverged \(chain 0 at step \d+\)"):
        gone = run(isotherm.ccadl(5e-3, 1.0))
    assert 0 < int(gone.sample_stats.first_bad_step[0]) < 1000
    assert gone.sample_stats.diverging.all()
    draws = run(isotherm.mccadl(5e-3, 1.0), passes=1000).posterior.theta.values[0].astype(np.float64)
    assert gaussian_w2(draws.mean(0), np.cov(draws.T), EXACT.mean, EXACT.covariance) < 0.06
