"""Networks as users write them by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from registry import Case, classes, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def weights(*shape, seed=0):
    return jnp.asarray(normals(*shape, seed=seed) / np.sqrt(shape[0]))


def dense(layers, x):
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def layers_of(*sizes):
    pairs = itertools.pairwise(sizes)
    return [{"w": weights(a, b, seed=a), "b": jnp.zeros(b)} for a, b in pairs]


def digits(rows=60, side=8):
    return {"image": integers(256, rows, side, side).astype(np.uint8), "label": integers(3, rows, seed=1)}


def label_of(logits, label):
    return jax.nn.log_softmax(logits)[label]


@model
def dense_network():
    return Case(
        Posterior(lambda p, row: gaussian(dense(p, row["x"])[0], row["y"]), normal_prior),
        regression(),
        layers_of(4, 8, 8, 1),
    )


@model
def dense_classifier():
    return Case(
        Posterior(lambda p, row: label_of(dense(p, row["x"]), row["y"]), normal_prior),
        classes(200, 4, 3),
        layers_of(4, 16, 3),
    )


@model
def dense_network_of_600_parameters():
    return Case(
        Posterior(lambda p, row: gaussian(dense(p, row["x"])[0], row["y"]), normal_prior),
        regression(200, 8),
        layers_of(8, 32, 10, 1),
    )


@model
def relu_network():
    def log_likelihood(p, row):
        return gaussian(jax.nn.relu(row["x"] @ p["w"]) @ p["v"], row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), {"w": weights(4, 10), "v": weights(10)})


@model
def gelu_network_with_dropout_mask():
    mask = np.random.default_rng(0).random(10) < 0.8

    def log_likelihood(p, row):
        return gaussian((mask * jax.nn.gelu(row["x"] @ p["w"])) @ p["v"], row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), {"w": weights(4, 10), "v": weights(10)})


@model
def convolution_network():
    def log_likelihood(p, row):
        image = row["image"][None, None].astype(p["filter"].dtype) / 255
        hidden = jax.nn.relu(jax.lax.conv(image, p["filter"], (1, 1), "SAME"))
        return label_of(hidden.mean((0, 2, 3)) @ p["out"], row["label"])

    init = {"filter": weights(4, 1, 3, 3), "out": weights(4, 3)}
    return Case(Posterior(log_likelihood, normal_prior), digits(), init)


@model
def convolution_and_pooling():
    def log_likelihood(p, row):
        image = row["image"][None, :, :, None].astype(p["filter"].dtype) / 255
        hidden = jax.lax.conv_general_dilated(
            image, p["filter"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        pooled = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return label_of(pooled.reshape(-1) @ p["out"], row["label"])

    init = {"filter": weights(3, 3, 1, 2), "out": weights(18, 3)}
    return Case(Posterior(log_likelihood, normal_prior), digits(40), init)


@model
def attention_layer():
    def log_likelihood(p, row):
        q, k, v = (row["x"] @ p[name] for name in "qkv")
        mixed = jax.nn.softmax(q @ k.T / 2) @ v
        return gaussian(mixed.mean(), row["y"])

    data = {"x": normals(80, 5, 4), "y": normals(80)}
    return Case(Posterior(log_likelihood, normal_prior), data, {name: weights(4, 4) for name in "qkv"})


@model
def transformer_block_on_tokens():
    def normalised(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def log_likelihood(p, tokens):
        x = p["embed"][tokens] + p["place"]
        scores = normalised(x) @ p["q"] @ normalised(x).T
        scores = jnp.where(np.tril(np.ones((6, 6), bool)), scores, -1e9)
        x = x + jax.nn.softmax(scores) @ x
        x = x + jax.nn.gelu(normalised(x) @ p["up"]) @ p["down"]
        logits = jax.nn.log_softmax(x @ p["embed"].T)
        return jnp.sum(jnp.take_along_axis(logits[:-1], tokens[1:, None], axis=1))

    init = {
        "embed": weights(10, 4),
        "place": weights(6, 4),
        "q": weights(4, 4),
        "up": weights(4, 8),
        "down": weights(8, 4),
    }
    return Case(Posterior(log_likelihood, normal_prior), integers(10, 60, 6), init)


@model
def embedding_bag():
    def log_likelihood(p, row):
        return label_of(p["embed"][row["words"]].mean(0) @ p["out"], row["label"])

    data = {"words": integers(30, 150, 7), "label": integers(3, 150)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"embed": weights(30, 4), "out": weights(4, 3)})


@model
def layer_normalisation():
    def log_likelihood(p, row):
        hidden = jnp.tanh(row["x"] @ p["w"])
        hidden = p["gain"] * (hidden - hidden.mean()) / (hidden.std() + 1e-3) + p["shift"]
        return gaussian(hidden.sum() / 8, row["y"])

    init = {"w": weights(4, 8), "gain": jnp.ones(8), "shift": jnp.zeros(8)}
    return Case(Posterior(log_likelihood, normal_prior), regression(), init)


@model
def recurrent_network():
    def log_likelihood(p, row):
        def step(hidden, x):
            return jnp.tanh(hidden @ p["hidden"] + x @ p["in"]), None

        last, _ = jax.lax.scan(step, jnp.zeros(5), row["x"])
        return gaussian(last @ p["out"], row["y"])

    init = {"in": weights(2, 5), "hidden": weights(5, 5), "out": weights(5)}
    return Case(Posterior(log_likelihood, normal_prior), {"x": normals(60, 8, 2), "y": normals(60)}, init)


@model
def gated_recurrent_network():
    def log_likelihood(p, row):
        def step(hidden, x):
            both = jnp.concatenate([hidden, x])
            gate, new = jax.nn.sigmoid(both @ p["gate"]), jnp.tanh(both @ p["new"])
            return gate * hidden + (1 - gate) * new, hidden.sum()

        _, sums = jax.lax.scan(step, jnp.zeros(3), row["x"], unroll=2)
        return gaussian(sums[-1], row["y"])

    return Case(
        Posterior(log_likelihood, normal_prior),
        {"x": normals(60, 6, 2), "y": normals(60)},
        {"gate": weights(5, 3), "new": weights(5, 3)},
    )


@model
def residual_network_by_scan_over_layers():
    def log_likelihood(p, row):
        x, _ = jax.lax.scan(lambda x, w: (x + jnp.tanh(w @ x) / 3, None), row["x"], p["layers"])
        return gaussian(x @ p["out"], row["y"])

    init = {"layers": jnp.asarray(normals(5, 4, 4) / 4), "out": weights(4)}
    return Case(Posterior(log_likelihood, normal_prior), regression(), init)


@model
def discriminative_boltzmann_machine():
    def log_likelihood(p, row):
        free = jax.nn.softplus(row["x"] @ p["W"] + p["U"] + p["c"]).sum(1) + p["d"]
        return label_of(free, row["y"])

    init = {"W": weights(6, 5), "U": weights(3, 5), "c": jnp.zeros(5), "d": jnp.zeros(3)}
    return Case(Posterior(log_likelihood, normal_prior), classes(200, 6, 3), init)


@model
def autoencoder():
    def log_likelihood(p, x):
        return -0.5 * jnp.sum((jnp.tanh(x @ p["down"]) @ p["up"] - x) ** 2)

    return Case(Posterior(log_likelihood, normal_prior), normals(100, 8), {"down": weights(8, 2), "up": weights(2, 8)})


@model
def variational_autoencoder_with_fixed_noise():
    noise = jnp.asarray(normals(2))

    def log_likelihood(p, x):
        mean, log_sigma = jnp.split(x @ p["encoder"], 2)
        z = mean + jnp.exp(log_sigma) * noise
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_sigma) - 2 * log_sigma - 1)
        return -0.5 * jnp.sum((z @ p["decoder"] - x) ** 2) - divergence

    init = {"encoder": weights(6, 4) / 3, "decoder": weights(2, 6)}
    return Case(Posterior(log_likelihood, normal_prior), normals(100, 6), init)


@model
def graph_convolution():
    adjacency = (normals(12, 12) > 0.5).astype(np.float32)

    def log_likelihood(p, row):
        hidden = jnp.tanh(adjacency @ row["x"] @ p["first"])
        return label_of((adjacency @ hidden).mean(0) @ p["second"], row["label"])

    data = {"x": normals(60, 12, 3), "label": integers(2, 60)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"first": weights(3, 4), "second": weights(4, 2)})


@model
def neural_additive_model():
    def log_likelihood(p, row):
        each = jax.vmap(lambda w, v, x: jnp.tanh(w * x) @ v)(p["w"], p["v"], row["x"])
        return gaussian(each.sum(), row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), {"w": weights(4, 6), "v": weights(4, 6)})


@model
def hypernetwork():
    def log_likelihood(p, row):
        w = jnp.tanh(p["code"] @ p["generator"]).reshape(4, 3)
        return gaussian(jnp.sum(jnp.tanh(row["x"] @ w)), row["y"])

    return Case(
        Posterior(log_likelihood, normal_prior), regression(), {"code": weights(2), "generator": weights(2, 12)}
    )
