"""Any combination of `sample`'s arguments runs, with finite and labelled results, or is refused in our words."""

import traceback
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import isotherm

SRC = Path(isotherm.__file__).parent
ROWS = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
NAN = float("nan")

POSTERIORS = {
    "gaussian": isotherm.Posterior(
        lambda theta, x: -0.5 * jnp.sum((theta - x) ** 2), lambda theta: -0.5 * jnp.sum(theta**2)
    ),
}
BAD_POSTERIORS = {
    "vector likelihood": isotherm.Posterior(lambda theta, x: theta - x, lambda theta: -0.5 * jnp.sum(theta**2)),
    "wrong shapes": isotherm.Posterior(lambda theta, x: theta @ jnp.ones(7) * x[0], lambda theta: jnp.sum(theta)),
    "raises": isotherm.Posterior(lambda theta, x: {}["no"], lambda theta: jnp.sum(theta)),
    "integer": isotherm.Posterior(lambda theta, x: 1, lambda theta: jnp.sum(theta)),
    "none": None,
    "function": lambda theta, x: 0.0,
}
SAMPLERS = {
    "sgld": isotherm.sgld(step_size=1e-3),
    "mass": isotherm.sgnht(step_size=1e-3, mass=np.ones(2, np.float32)),
    "schedule": isotherm.sghmc(step_size=lambda step: 1e-3 / (1 + step / 10)),
    "mccadl": isotherm.mccadl(step_size=1e-3),
    "hot": isotherm.sgld(step_size=1e6),
}
BAD_SAMPLERS = {
    "class": isotherm.mccadl,
    "word": "mccadl",
    "none": None,
    "mass of another length": isotherm.sgnht(step_size=1e-3, mass=np.ones(5, np.float32)),
}
DATA = {"rows": ROWS, "doubles": ROWS.astype(np.float64), "lists": ROWS.tolist(), "one": ROWS[:1]}
BAD_DATA = {
    "nan": np.full((3, 2), NAN, np.float32),
    "empty": ROWS[:0],
    "scalar": 3.0,
    "words": np.array(["a", "b"]),
    "objects": np.array([None, {}]),
    "none": None,
    "ragged": {"x": ROWS, "y": ROWS[:3]},
    "wide": np.ones((4, 5), np.float32),
    "integers": np.arange(12).reshape(6, 2),
    "complex": ROWS * 1j,
    "mixed keys": {1: ROWS, "a": ROWS},
}
INIT = {"array": jnp.zeros(2), "numpy": np.zeros(2), "drawn": lambda key: jnp.ones(2)}
BAD_INIT = {
    "integers": np.zeros(2, int),
    "nan": np.array([NAN, 0]),
    "none": None,
    "word": "zeros",
    "matrix": np.zeros((3, 3), np.float32),
    "empty": {},
    "no entries": np.zeros(0, np.float32),
    "mixed keys": {1: np.zeros(2), "a": np.zeros(2)},
    "slash": {"a/b": np.zeros(2)},
    "chain": {"chain": np.zeros(2)},
    "returns none": lambda key: None,
    "raises": lambda key: 1 / 0,
    "takes nothing": lambda: np.zeros(2),
}
NUMBERS = [-1, 0, 0.5, 1.5, NAN, float("inf"), True, None, "3", [1], 2**31, 2**40, 10**30, np.float32(2), 3j]
GOOD = {
    "batch_size": [1, 3, 6, np.int64(2)],
    "steps": [5, 12],
    "passes": [4, 7.5],
    "burn_in": [0.0, 0.2, 0.5, 0],
    "thin": [1, 3],
    "chains": [1, 2],
    "seed": [0, 7, 2**31, 2**32 - 1],
    "replace": [True, False],
    "progress": [False, True],
}


ALL_GOOD = {"posterior": POSTERIORS, "sampler": SAMPLERS, "data": DATA, "init": INIT, **GOOD}
ALL_BAD = {"posterior": BAD_POSTERIORS, "sampler": BAD_SAMPLERS, "data": BAD_DATA, "init": BAD_INIT}


@st.composite
def combinations(draw):
    """Good arguments, of which none, one or two are then spoiled, so that many combinations come far."""
    chosen = {name: draw(st.sampled_from(list(good))) for name, good in ALL_GOOD.items()}
    chosen["passes" if draw(st.booleans()) else "steps"] = None
    chosen["store"] = draw(st.sampled_from([None, None, "run.zarr"]))
    for name in draw(st.lists(st.sampled_from(list(ALL_GOOD)), max_size=2)) if draw(st.booleans()) else []:
        chosen[name] = draw(st.sampled_from(list(ALL_BAD.get(name, NUMBERS))))
    return chosen


def ours(error):
    """Whether an error was raised by a line of isotherm, as the documented kinds."""
    raised = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, ValueError | TypeError) and Path(raised).is_relative_to(SRC)


def check(chosen, folder):
    """Run one combination."""
    made = {
        "posterior": (POSTERIORS | BAD_POSTERIORS)[chosen["posterior"]],
        "sampler": (BAD_SAMPLERS | SAMPLERS)[chosen["sampler"]],
        "data": (BAD_DATA | DATA)[chosen["data"]],
        "init": (BAD_INIT | INIT)[chosen["init"]],
        "store": chosen["store"] and folder / chosen["store"],
    }
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", isotherm.VerdictWarning)  # these runs are short
        try:
            tree = isotherm.sample(**(chosen | made))
        except Exception as error:
            if not ours(error):
                raise
            return str(error)
    diverged = any("diverged" in str(each.message) for each in told)
    assert all("diverged" in str(each.message) for each in told), told
    posterior = tree["posterior"].to_dataset()
    assert posterior.sizes["chain"] == chosen["chains"]
    assert posterior.sizes["draw"] == (tree.attrs["steps"] - tree.attrs["burn_in"]) // tree.attrs["thin"] > 0
    for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
        for name, variable in tree[group].to_dataset().variables.items():
            assert variable.dims[:1] in (("chain",), (name,)) or name == "draw"
            assert diverged or np.isfinite(variable.values).all(), f"{group}/{name}"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("cases", [30, pytest.param(500, marks=pytest.mark.long)])
def test_any_arguments(tmp_path_factory, cases):
    outcomes = {"ran": 0, "refused": 0}

    @settings(
        max_examples=cases, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(combinations())
    def each(chosen):
        refused = check(chosen, tmp_path_factory.mktemp("case"))
        outcomes["ran" if refused is None else "refused"] += 1

    each()
    print(outcomes)
    assert min(outcomes.values()) >= cases // 10


GOOD_ONE = {"posterior": "gaussian", "sampler": "sgld", "data": "rows", "init": "array", "store": None} | {
    name: values[1] for name, values in GOOD.items()
} | {"passes": None}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("posterior", value) for value in BAD_POSTERIORS),
        *(("sampler", value) for value in BAD_SAMPLERS),
        *(("data", value) for value in BAD_DATA if value != "integers"),
        *(("init", value) for value in BAD_INIT),
    ],
)
def test_each_bad_argument_alone_is_refused(tmp_path, name, value):
    assert check(GOOD_ONE | {name: value}, tmp_path)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda step: 1e-3 if step < 5 else 1e-4,
        lambda step: 1e-3 if isinstance(step, int) else jnp.ones(3),
        lambda step: {0: 1e-3}[step],
        lambda step: -1e-3,
        lambda step: jnp.ones(2),
    ],
)
def test_schedules_that_cannot_be_compiled_are_refused(schedule):
    with pytest.raises((TypeError, ValueError), match=r"step_size\((step|0)\) must"):
        isotherm.sgld(step_size=schedule)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GOOD if name not in ("replace", "progress")])
@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_each_odd_number_alone(tmp_path, name, value):
    check(GOOD_ONE | {name: value}, tmp_path)
