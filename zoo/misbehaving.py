"""What the runner has to notice, for its own test: these are not part of the zoo and run only when named."""

import os

import jax.numpy as jnp
from registry import Case, gaussian, normal_prior, normals

from isotherm import Posterior


def case_of(misbehave, expected="runs"):
    def log_prior(theta):
        misbehave()
        return normal_prior(theta)

    return Case(Posterior(gaussian, log_prior), normals(50), jnp.zeros(()), expected=expected)


def spin():
    while True:
        pass


def misbehaving_aborts():
    return case_of(os.abort)


def misbehaving_hangs():
    return case_of(spin)


def misbehaving_runs_where_refusal_is_expected():
    return case_of(lambda: None, expected="refused")


def misbehaving_raises_before_the_run():
    return Case(Posterior(gaussian, normal_prior), normals(50), jnp.zeros(()), batch_size=Misleading())


class Misleading(int):
    """An integer whose comparison fails with an error that is not isotherm's."""

    def __lt__(self, other):
        raise RuntimeError("not isotherm's")


MISBEHAVING = {
    make.__name__: make
    for make in (
        misbehaving_aborts,
        misbehaving_hangs,
        misbehaving_runs_where_refusal_is_expected,
        misbehaving_raises_before_the_run,
    )
}
