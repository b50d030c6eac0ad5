"""What a run was made with is recognised, and what differs is found."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run import assemble
from isotherm.store import identity


class Named(NamedTuple):
    w: np.ndarray
    b: np.ndarray


def test_a_nest_is_rebuilt(data):
    params = {"a": [jnp.zeros(2), (jnp.zeros((3, 1)),)], "b": {}, "c": jnp.zeros(())}
    posterior = isotherm.Posterior(lambda p, e: p["c"] * e["y"], lambda p: -(p["c"] ** 2))
    settings = {"batch_size": 8, "replace": True, "chains": 1, "seed": 0, "name": None}
    made = assemble.assemble(
        posterior, isotherm.sgnht(step_size=0.01, friction=2.0), data, params, assemble.RunSettings(**settings)
    )
    stored = json.loads(json.dumps(identity.layout(made.evaluation, made.starts)))
    built = identity.zeros(stored)
    assert jax.tree.structure(built) == jax.tree.structure(params)
    assert [leaf.shape for leaf in jax.tree.leaves(built)] == [leaf.shape for leaf in jax.tree.leaves(params)]
    assert identity.nest(Named(1, 2)) is None


def changed_models(log_likelihood=None, log_prior=None):
    """What was once taken for the same: the likelihood of some rows, of all a little; a prior, wider or bounded."""

    def some_rows(params, example):
        return jnp.where(example["y"] > 0, 5.0, 1.0) * log_likelihood(params, example)

    def penalty(params):
        return log_prior(params) - jnp.where(params["b"] > 1, 1.0, 0.0)

    return {
        "some rows": (some_rows, log_prior),
        "likelihood times 1.001": (lambda p, e: 1.001 * log_likelihood(p, e), log_prior),
        "prior variance 1.01": (log_likelihood, lambda p: log_prior(p) / 1.01),
        "penalty beyond 1": (log_likelihood, penalty),
    }


@pytest.mark.parametrize("change", changed_models())
def test_a_model_that_differs_anywhere_is_refused(tmp_path, run, resume, posterior, change):
    run(tmp_path / "run.zarr", steps=20)
    changed = changed_models(posterior.log_likelihood, posterior.log_prior)[change]
    with pytest.raises(ValueError, match=r"was made with another posterior: log_.* at a test point, was"):
        resume(tmp_path / "run.zarr", isotherm.Posterior(*changed))


def test_data_are_known_by_their_bytes(data):
    stored = json.loads(json.dumps(identity.fingerprint(data)))
    assert not list(identity.data_differences(stored, jax.tree.map(jnp.asarray, data)))
    flipped = data["x"].copy()
    flipped[39, 1] = np.nextafter(flipped[39, 1], np.float32(9))
    (said,) = identity.data_differences(stored, data | {"x": flipped})
    assert said.startswith("data['x'] has other contents: ")
    assert list(identity.data_differences(stored, {"x": data["x"]})) == ["data['y'] is missing"]
