"""Each check: what it takes, what it refuses, and in which words."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from isotherm.lib import arguments


def refused(check, error, words):
    """`check` raises `error` with these words and no others."""
    with pytest.raises(error, match=f"^{re.escape(words)}$"):
        check()


NUMBERS = [0.5, 3, -2, 0, np.float32(0.5), np.int64(3), np.array(2.0), jnp.asarray(0.25)]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers(value):
    found = arguments.number("a", value)
    assert type(found) is float
    assert found == float(value)


@pytest.mark.parametrize("value", ["0.5", True, None, [1.0], [[1], [1, 2]], np.ones(1), {}, 1j, len], ids=repr)
def test_what_is_no_number(value):
    for check in (arguments.number, arguments.positive, arguments.non_negative):
        refused(lambda check=check: check("a", value), TypeError, f"a must be a number, got {value!r}")


@pytest.mark.parametrize(
    "value", [np.inf, -np.inf, np.nan, np.float32(np.nan), 10**400], ids=lambda value: repr(value)[:9]
)
def test_numbers_that_are_not_finite(value):
    for check in (arguments.number, arguments.positive, arguments.non_negative):
        refused(lambda check=check: check("a", value), ValueError, f"a must be finite, got {value!r}")


def test_signs():
    assert arguments.positive("a", 5e-324) == 5e-324
    assert arguments.non_negative("a", 0) == 0.0
    assert type(arguments.non_negative("a", 0)) is float
    refused(lambda: arguments.positive("a", 0), ValueError, "a must be positive, got 0")
    refused(lambda: arguments.positive("a", -1.5), ValueError, "a must be positive, got -1.5")
    refused(
        lambda: arguments.non_negative("a", -1e-9), ValueError, "a must not be negative, got -1e-09; zero is allowed"
    )


def test_integers():
    for value in (2, 5, np.int32(3), np.uint64(4)):
        found = arguments.integer("n", value, 2, 5)
        assert type(found) is int
        assert found == value
    assert arguments.integer("n", 10**30, 2) == 10**30
    refused(lambda: arguments.integer("n", 1, 2, 5), ValueError, "n must be at least 2, got 1")
    refused(lambda: arguments.integer("n", 6, 2, 5), ValueError, "n must be at most 5, got 6")


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array(3), [3]], ids=repr)
def test_what_is_no_integer(value):
    refused(lambda: arguments.integer("n", value, 0), TypeError, f"n must be an integer, got {value!r}")


@pytest.mark.parametrize("allowed", [("one", "two"), {"one": 1, "two": 2}], ids=["tuple", "mapping"])
def test_choices(allowed):
    assert arguments.choice("word", "two", allowed) == "two"
    for value in ("three", "", None, 1, ["two"], np.array(["two", "two"])):
        words = f"word must be one of 'one', 'two', got {value!r}"
        refused(lambda value=value: arguments.choice("word", value, allowed), ValueError, words)


def test_auto_is_left_to_the_sampler():
    assert arguments.unless_auto("a", "auto", arguments.positive) is None
    assert arguments.unless_auto("a", None, arguments.positive) is None
    assert arguments.unless_auto("a", 2, arguments.positive) == 2.0
    assert arguments.unless_auto("a", np.ones(2), lambda _, value: value.sum()) == 2.0
    refused(lambda: arguments.unless_auto("a", 0, arguments.positive), ValueError, "a must be positive, got 0")
    refused(lambda: arguments.unless_auto("a", 9, arguments.integer, 1, 8), ValueError, "a must be at most 8, got 9")
    refused(lambda: arguments.unless_auto("a", "Auto", arguments.positive), TypeError, "a must be a number, got 'Auto'")


def test_a_step_size_is_a_positive_number_or_a_schedule():
    assert arguments.step_size("step_size", 1) == 1.0
    refused(lambda: arguments.step_size("step_size", -0.1), ValueError, "step_size must be positive, got -0.1")
    refused(lambda: arguments.step_size("h", 0.0), ValueError, "h must be positive, got 0.0")
    scheduled = arguments.step_size("step_size", lambda step: 0.1 / (1 + step / 2))
    assert isinstance(scheduled, jax.tree_util.Partial)
    assert scheduled(2) == 0.05
    assert not jax.tree.leaves(scheduled)
    assert arguments.step_size("step_size", scheduled) is scheduled


def fail(step):
    raise KeyError("no schedule")


SCHEDULES = [
    (fail, TypeError, "step_size(0) must be the first step size, it raised KeyError('no schedule')"),
    (lambda step: np.ones(2), TypeError, "step_size(step) must return a number, got shape (2,) at step 0"),
    (lambda step: -1.0, ValueError, "step_size(0) must be positive, got -1.0"),
    (lambda step: np.nan, ValueError, "step_size(0) must be finite, got nan"),
    (lambda step: None, TypeError, "step_size(0) must be a number, got None"),
    (lambda step: "0.1", TypeError, "step_size(0) must be a number, got '0.1'"),
    (lambda step: jnp.float32(-1), ValueError, "step_size(0) must be positive, got -1.0"),
    (
        lambda step: 0.1 if step < 10 else 0.01,
        TypeError,
        "step_size(step) must be compiled, and step is then not a number yet; write it with jax.numpy, jnp.where "
        "instead of if: it raised TracerBoolConversionError",
    ),
    (
        lambda step: 0.1 if isinstance(step, int) else jnp.ones(3),
        TypeError,
        "step_size(step) must return a number, got shape (3,)",
    ),
]


@pytest.mark.parametrize(
    ("schedule", "error", "words"),
    SCHEDULES,
    ids=["raises", "vector", "sign", "nan", "nothing", "text", "sign of an array", "if", "vector later"],
)
def test_schedules_that_are_refused(schedule, error, words):
    refused(lambda: arguments.step_size("step_size", schedule), error, words)


def test_a_mass_is_a_number_a_vector_or_a_tree():
    assert arguments.mass(2) == 2.0
    np.testing.assert_array_equal(arguments.mass(np.array([1.0, 2.0])), [1, 2])
    np.testing.assert_array_equal(arguments.mass({"b": np.full((2, 1), 3.0), "a": 1.0}), [1, 3, 3])
    np.testing.assert_array_equal(arguments.mass([1.0, 2.0]), [1, 2])
    refused(lambda: arguments.mass(0), ValueError, "mass must be positive, got 0")
    refused(lambda: arguments.mass("heavy"), TypeError, "mass must be a number, got 'heavy'")
    np.testing.assert_array_equal(arguments.mass(pd.Series([1.0, 2.0])), [1, 2])
    words = "mass must be a positive number, a vector or a pytree of them, got "
    for bad in (["heavy"], {"a": "heavy"}, np.array(["heavy"]), [[1], [1, object()]], {"a": 1, 2: 1}):
        refused(lambda bad=bad: arguments.mass(bad), TypeError, f"{words}{bad!r}")
    for bad in (0.0, -1.0, np.inf, np.nan):
        words = f"mass must be positive and finite, got {bad} at entry 1"
        refused(lambda bad=bad: arguments.mass(np.array([1.0, bad, bad])), ValueError, words)


def test_functions():
    arguments.function("f", len, "(x) -> int")
    refused(
        lambda: arguments.function("f", 3, "(params) -> scalar"),
        TypeError,
        "f must be a function (params) -> scalar, got 3",
    )
