"""The target: which model is guessed, and what its family is given."""

import numpy as np
import pytest

from isotherm.tables import target
from isotherm.tables.columns import Levels, Numbers, Times
from isotherm.tables.target import Wanted

RNG = np.random.default_rng(0)


def numbers(values):
    return Numbers(np.asarray(values, np.float64))


@pytest.mark.parametrize(
    ("column", "model"),
    [
        (Levels(np.int32([0, 1, 1, 0]), ("no", "yes")), "logistic"),
        (Levels(np.int32([0, 1, 2, 0]), ("a", "b", "c")), "softmax"),
        (numbers([0, 1, 1, 0]), "logistic"),
        (numbers([1, 2, 2, 1, np.nan]), "logistic"),
        (numbers(np.arange(1000) % 10), "softmax"),
        (numbers(RNG.poisson(3.0, 1000)), "poisson"),  # 10 and more are rare: no classes
        (numbers(RNG.standard_normal(1000)), "linear"),
        (numbers(RNG.integers(25, 346, 1000)), "linear"),
        (numbers([0.5, 1.5, 2.5, 0.5]), "linear"),
        (numbers([-3, 0, 2, 5_000]), "linear"),
    ],
)
def test_the_model_is_guessed_from_the_target(column, model):
    assert target.guess("y", column)[0] == model


def test_a_target_of_another_kind_is_refused_with_what_it_holds():
    with pytest.raises(ValueError, match='the target "y" holds dates; it must hold numbers or classes'):
        target.guess("y", Times(np.zeros(3)))
    truth = Levels(np.int32([0, 1, 1]), ("false", "true"), truth=True)
    with pytest.raises(ValueError, match='needs a target of numbers, and "y" holds true or false; try logistic'):
        target.make(Wanted("y"), truth, "linear")


def test_classes_are_codes_in_order():
    column = Levels(np.int32([2, 0, 2, 2]), ("a", "b", "c"))
    made = target.make(Wanted("y"), column, "logistic")
    assert made.classes == ("a", "c")  # b does not occur
    assert made.base[0] == pytest.approx(np.log(3))
    np.testing.assert_array_equal(target.encode(made, column), np.float32([1, 0, 1, 1]))


def test_whole_numbers_as_classes():
    column = numbers([7, 3, 3, 12345678])
    made = target.make(Wanted("y"), column, "softmax")
    assert made.classes == ("3", "7", "12345678")
    np.testing.assert_array_equal(target.encode(made, column), np.int32([1, 0, 0, 2]))


def test_a_number_is_standardised():
    column = numbers([10, 20, 30])
    made = target.make(Wanted("y"), column, "linear")
    z = target.encode(made, column)
    np.testing.assert_allclose(z, np.float32([-1, 0, 1]) * np.sqrt(1.5), rtol=1e-6)
    np.testing.assert_allclose(made.mean + made.scale * z, column.values, rtol=1e-6)


def test_a_comparison_is_a_target_of_two_classes():
    wanted = target.parse("delay > 15", ["delay", "x"], "t.csv")
    assert wanted == Wanted("delay", ">", 15.0)
    column = target.compare(numbers([16, 15, np.nan]), wanted)
    assert column.names == ("false", "true")
    np.testing.assert_array_equal(column.values, [1, 0, -1])


def test_a_column_whose_name_looks_like_a_comparison_is_a_column():
    assert target.parse("a > 1", ["a", "a > 1"], "t.csv") == Wanted("a > 1")


def test_a_mlp_takes_what_the_target_is():
    assert target.make(Wanted("y"), numbers([0, 1, 1]), "mlp").family == "bernoulli"
    assert target.make(Wanted("y"), numbers(RNG.standard_normal(50)), "mlp").family == "gaussian"
    assert target.make(Wanted("y"), numbers([0, 1, 1]), "drbm").family == "categorical"
