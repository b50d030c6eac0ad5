"""Strict numerics for every test: no silent promotion of dtypes or ranks; warnings are errors (pyproject.toml); and the
shapes and types that annotations promise are checked, call by call. What one test compiles, others need not: programs
are kept in .pytest_cache/xla, also for the processes that tests start and for the next run of the tests."""

import gc
import os
from pathlib import Path

# Before the first import of JAX, which reads them.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# There is a process of tests on each core, and BLAS threads that wait for one another keep it busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jaxtyping
import pytest
import threadpoolctl

threadpoolctl.threadpool_limits(1, user_api="blas")  # NumPy's may have been loaded by a plugin of pytest

# Where arrays are computed with; rooms that check a user's arguments themselves are left to do so.
DYNAMICS = [f"dynamics.{file}" for file in ("covariance", "low_rank", "matrix_exponential", "flows")]
ROOMS = ["posterior", *DYNAMICS, "targets.evaluation", "run.loop", "run.chains", "diagnostics"]
jaxtyping.install_import_hook([f"isotherm.{room}" for room in ROOMS], "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

collect_ignore = ["trace_calls.py"]  # a script, which test_structure.py runs

MOST_MEMORY = 2.5e9  # bytes of a process, from which on it forgets what it compiled


def pytest_configure(config):
    """Compiling takes most of the time of `make test`, and little more than half as long with the emitters that XLA had
    before those for fused operations. Slow and long tests, and all in one run (`-m ""`), are compiled as users' are."""
    if "not slow" in config.option.markexpr:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """JAX keeps every program of a process: those of all tests together are 10 GB."""
    yield
    pages = Path("/proc/self/statm")
    if pages.exists() and int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def float64():
    """The test runs in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, if it is there: $ISOTHERM_DATA, or `shared/data` beside the checkout."""
    return Path(os.environ.get("ISOTHERM_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data(data_folder) -> Path:
    """The folder of real data sets, where there is one."""
    if not data_folder.is_dir():
        pytest.skip(f"no real data at {data_folder}")
    return data_folder
