"""Does a network know what it does not know? One trained network against draws from its posterior, on real patients.

    python examples/flax_calibration.py [--seconds S] [--picture FILE]

Whether the diabetes of 442 patients got worse than average in a year, from ten measurements: there is much that these
do not say, and a Flax network trained with optax on 300 patients learns the chance in them too. From there chains
sample its posterior, and the probabilities of 200 draws are averaged. On the other 142: the error, the log loss, and
the expected calibration error, which is how far the stated confidence is from the share that is right. It needs Flax
and optax: pip install 'isotherm[flax]'.
"""

import argparse
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_diabetes

import isotherm
from isotherm.diagnostics import average, error, expected_calibration_error, log_loss

TRAINING, HIDDEN, DRAWS = 300, 16, 200
PRIOR_SCALE = 0.5
EPOCHS = 500  # of training, each one step on all rows
BINS = 10


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(10, HIDDEN, rngs=rngs)
        self.output = nnx.Linear(HIDDEN, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Log-probabilities of better and worse than average."""
        return jax.nn.log_softmax(self.output(nnx.tanh(self.hidden(x))))


def log_likelihood(network: Any, patient: Any) -> jax.Array:
    """Of one patient."""
    return network(patient["x"])[patient["y"]]


def train(network: Network, data: dict[str, np.ndarray]) -> None:
    """As networks are usually trained: Adam on the cross entropy."""
    optimizer = nnx.Optimizer(network, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(network: Network, optimizer: nnx.Optimizer) -> None:
        def loss(network: Network) -> jax.Array:
            return -jnp.mean(jnp.take_along_axis(network(data["x"]), data["y"][:, None], axis=1))

        optimizer.update(network, nnx.grad(loss)(network))

    for _ in range(EPOCHS):
        step(network, optimizer)


def reliability(log_p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean confidence and share that is right, by bin of the confidence that has five patients or more."""
    confidence, right = np.exp(log_p.max(axis=1)), log_p.argmax(axis=1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    there = [b for b in range(BINS) if (bins == b).sum() >= 5]
    return tuple(np.array([values[bins == b].mean() for b in there]) for values in (confidence, right))  # type: ignore[return-value]


def draw(predictions: dict[str, np.ndarray], y: np.ndarray, path: str) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 5), dpi=150, layout="constrained")
    axes.plot([0.5, 1], [0.5, 1], color="0.7", linewidth=1)
    for (name, log_p), colour in zip(predictions.items(), ("tab:red", "tab:blue"), strict=True):
        axes.plot(*reliability(log_p, y), "o-", color=colour, label=name)
    axes.set_xlabel("confidence in the more probable answer")
    axes.set_ylabel("share that is right")
    axes.set_title("Below the line a network is too sure of itself", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="for sampling")
    parser.add_argument("--picture", metavar="FILE", default="calibration.png", help="where the picture goes")
    options = parser.parse_args(arguments)

    x, y = load_diabetes(return_X_y=True, scaled=False)
    x, y = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32), (y > y.mean()).astype(np.int32)
    order = np.random.default_rng(0).permutation(len(y))
    train_rows, test_rows = order[:TRAINING], order[TRAINING:]
    data, x, y = {"x": x[train_rows], "y": y[train_rows]}, x[test_rows], y[test_rows]

    trained = Network(nnx.Rngs(0))
    train(trained, data)
    posterior = isotherm.bridges.flax.network(trained, log_likelihood, prior_scale=PRIOR_SCALE)
    print(posterior)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = isotherm.fit(posterior, data, seconds=options.seconds)
    for warning in caught:
        print(f"fit says: {warning.message}")

    draws = np.stack([np.asarray(module(x)) for module in posterior.modules(tree, DRAWS)])
    predictions = {"one trained network": np.asarray(trained(x)), f"{DRAWS} draws": average(draws)}
    print(f"\n{len(y)} other patients      error   log loss   calibration error")
    for name, log_p in predictions.items():
        calibration = expected_calibration_error(np.exp(log_p), y)
        print(f"{name:22} {error(log_p, y):6.1%}   {log_loss(log_p, y):8.3f}   {calibration:17.3f}")
    draw(predictions, y, options.picture)
    print(f"the picture is in {options.picture}")


if __name__ == "__main__":
    main()
