"""The README's code runs, and what it says of the demo's files is true."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_the_fifteen_lines(capsys):
    """As written; a user's JAX promotes, so no strictness here."""
    import jax

    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        exec(compile(code, str(README), "exec"), names)
    mean = names["tree"].posterior.theta.mean(("chain", "draw")).values
    # Twenty thousand examples know each coefficient to about 1/√(20,000 · 0.2) = 0.016; five of those.
    np.testing.assert_allclose(mean, np.linspace(-1, 1, 10), atol=0.08)
    assert "[" in capsys.readouterr().out


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert link.startswith("https://") or (README.parent / link).exists(), link
