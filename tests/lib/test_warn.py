"""A warning points at the line that called into the package, through any number of its functions."""

import types

import pytest

from isotherm.lib import warn as module
from isotherm.lib.warn import warn


class DeepWarning(RuntimeWarning):
    pass


def test_a_warning_points_at_the_callers_line():
    with pytest.warns(RuntimeWarning, match="directly") as caught:
        warn("directly")
    assert caught[0].filename == __file__


@pytest.mark.parametrize("depth", [1, 5])
def test_frames_of_the_package_are_passed_over(depth):
    source = "def call(depth):\n    return call(depth - 1) if depth else warn('deep', DeepWarning)"
    inside = types.ModuleType("inside")
    inside.warn, inside.DeepWarning = warn, DeepWarning
    exec(compile(source, module.PACKAGE + "inside.py", "exec"), inside.__dict__)
    with pytest.warns(DeepWarning, match="deep") as caught:
        inside.call(depth)
    assert caught[0].filename == __file__
