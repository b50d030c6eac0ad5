"""The names of `__init__.pyi`, loaded when first used."""

import inspect
import sys

import pytest

import isotherm


def test_a_function_is_not_hidden_by_the_package_of_its_name():
    """Importing isotherm/predict/prediction.py binds `isotherm.predict` to the package, were it not for lazy_loader."""
    import isotherm.predict.prediction
    import isotherm.report.html

    assert "isotherm.predict.prediction" in sys.modules
    assert "isotherm.report.html" in sys.modules
    assert inspect.isfunction(isotherm.predict)
    assert inspect.isfunction(isotherm.report)


def test_every_name_is_found_and_others_are_refused():
    assert set(dir(isotherm)) == set(isotherm.__all__)
    for name in isotherm.__all__:
        assert getattr(isotherm, name) is not None
    with pytest.raises(AttributeError, match="isotherm attribute nothing"):
        isotherm.nothing  # noqa: B018
