"""A sampler as plain values: said in results, stored, and built again."""

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.samplers import settings

SAMPLERS = [
    *(getattr(isotherm.samplers, name)(step_size=0.01) for name in isotherm.samplers.__all__ if name.islower()),
    isotherm.sgld(step_size=1e-3, mass=np.array([1.0, 2.0, 3.0], np.float32)),
    isotherm.sghmc(step_size=0.01, friction=0.0, temperature=0.1, mass=2.0),
    isotherm.mccadl(step_size=0.01, thermal_mass=3, scheme="BAOCDCOAB", expm="taylor", rank=3),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_every_sampler_is_rebuilt_from_its_settings(sampler):
    stored, arrays = settings.encode(sampler, steps=100)
    again = settings.decode(json.loads(json.dumps(stored)), arrays)
    assert type(again) is type(sampler)
    jax.tree.map(np.testing.assert_array_equal, again, sampler)
    assert jax.tree.structure(again) == jax.tree.structure(sampler)
    assert not list(settings.differences(stored, arrays, again, 100))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_attributes_are_what_any_file_format_holds(sampler):
    said = settings.attributes(sampler)
    assert said["sampler"] == type(sampler).__name__.lower()
    assert said["sampler"] in settings.NAMES
    assert said.keys() - {"sampler"} == {f"sampler_{field}" for field in settings.fields(sampler)}
    assert json.loads(json.dumps(said)) == said


def test_defaults_are_said_in_the_words_of_the_signature():
    said = settings.attributes(isotherm.sgnht(step_size=0.01))
    assert (said["sampler_mass"], said["sampler_thermal_mass"]) == (1.0, "auto")


def test_arrays_are_said_as_lists():
    said = settings.attributes(isotherm.sgld(step_size=0.01, mass=np.array([1.0, 2.0, 3.0])))
    assert said["sampler_mass"] == [1.0, 2.0, 3.0]
    assert settings.attributes(isotherm.sgld(step_size=0.01, mass=2))["sampler_mass"] == 2.0


def decaying(step):
    return 0.01 / (1 + step / 10)


class Decay:
    def __call__(self, step):
        return 0.01 / (1 + step / 10)

    def __repr__(self):
        return "Decay()"


def test_a_schedule_is_said_by_its_name():
    assert settings.attributes(isotherm.sgld(step_size=decaying))["sampler_step_size"] == "decaying"
    assert settings.attributes(isotherm.sgld(step_size=Decay()))["sampler_step_size"] == "Decay()"


def test_a_schedule_is_stored_as_some_of_its_values():
    stored, arrays = settings.encode(isotherm.sgld(step_size=decaying), steps=99)
    assert [step for step, _ in stored["settings"]["step_size"]["function"]] == [0, 1, 10]
    np.testing.assert_allclose(
        [h for _, h in stored["settings"]["step_size"]["function"]], [0.01, 0.01 / 1.1, 0.005], rtol=1e-6
    )
    assert not arrays
    with pytest.raises(ValueError, match=r"^its sampler's step_size is a function, which is not stored; pass sampler="):
        settings.decode(stored, arrays)


def test_a_sampler_of_others_is_asked_for_again():
    with pytest.raises(ValueError, match=r"^its sampler, mine, is not one of isotherm's; pass it again as sampler=$"):
        settings.decode({"name": "mine", "settings": {}}, {})


@dataclass(frozen=True)
class SGLD:
    """Somebody's own, of the name of one of ours."""

    step_size: float
    temperature: float


def test_a_sampler_of_others_with_the_name_of_one_of_ours_is_not_ours():
    mine, ours = SGLD(0.01, 1.0), isotherm.sgld(step_size=0.01)
    stored = settings.encode(mine, steps=100)
    with pytest.raises(ValueError, match=r"^its sampler, sgld, is not one of isotherm's; pass it again as sampler=$"):
        settings.decode(*stored)
    assert not list(settings.differences(*stored, mine, 100))
    assert list(settings.differences(*stored, ours, 100)) == ["sampler is isotherm's sgld, was another sgld"]
    of_ours = settings.encode(ours, steps=100)
    assert list(settings.differences(*of_ours, mine, 100)) == ["sampler is another sgld, was isotherm's sgld"]


def test_what_earlier_versions_stored_is_ours():
    """They did not say whose a class is."""
    ours = isotherm.sghmc(step_size=0.01, friction=2.0)
    stored, arrays = settings.encode(ours, steps=100)
    assert stored.pop("ours") is True
    assert settings.decode(stored, arrays) == ours
    assert not list(settings.differences(stored, arrays, ours, 100))


def test_what_differs_is_said():
    stored, arrays = settings.encode(isotherm.sgnht(step_size=0.01, friction=2.0, mass=np.array([1.0, 2.0])), steps=99)

    def differences(sampler):
        return list(settings.differences(stored, arrays, sampler, 99))

    assert differences(isotherm.sgld(step_size=0.01)) == ["sampler is sgld, was sgnht"]
    assert differences(isotherm.sgnht(step_size=0.02, friction=2.0, mass=jnp.array([1.0, 3.0]))) == [
        "mass is [1.0, 3.0], was [1.0, 2.0]",
        "step_size is 0.02, was 0.01",
    ]
    assert differences(isotherm.sgnht(step_size=0.01, friction=2.0)) == ["mass is None, was [1.0, 2.0]"]
