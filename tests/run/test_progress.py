"""A bar on a terminal, and nowhere else."""

import os
import select
import subprocess
import sys

from isotherm.run.progress import Bar

PROGRAM = """
import numpy as np, jax.numpy as jnp, isotherm
posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
data = np.ones((50, 2), np.float32)
isotherm.sample(posterior, isotherm.sgnht(0.01), data, np.zeros(2, np.float32), batch_size=5, steps=3000)
"""


def test_no_bar_where_there_is_no_terminal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_bar_on_a_terminal():
    """In a real pseudo-terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, stdout=theirs) as process:
        os.close(theirs)
        text = ""
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            try:
                text += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # the other side is closed
                break
    os.close(ours)
    assert process.returncode == 0
    assert "steps/s" in text
    assert "temperature" in text
    assert "3000/3000" in text


def test_what_a_bar_says():
    bar = Bar(300, show=False, done=30)
    (task,) = bar.progress.tasks
    assert (task.description, task.completed, task.total) == ("compiling", 30, 300)
    bar.update(59, 60, 12345.6, 1.23456)
    assert (task.description, task.completed, task.fields) == (
        "burn-in",
        59,
        {"speed": "12,346", "temperature": "1.23"},
    )
    bar.update(60, 60, 1.0, None)
    assert (task.description, task.completed, task.fields) == ("sampling", 60, {"speed": "1", "temperature": "–"})
