"""Counts, ranks, groups, ids and hidden classes: models with integer columns."""

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np
from jax.scipy.special import gammaln, logsumexp, xlogy
from registry import Case, classes, counts, gaussian, integers, model, normal_prior, normals

from isotherm import Posterior

PERSONS, ITEMS, ANSWERS = 30, 12, 400


def answers():
    return {
        "person": integers(PERSONS, ANSWERS),
        "item": integers(ITEMS, ANSWERS, seed=1),
        "right": integers(2, ANSWERS, seed=2),
    }


def bernoulli(logit, y):
    return y * logit - jax.nn.softplus(logit)


@model
def item_response_1pl():
    def log_likelihood(p, row):
        return bernoulli(p["ability"][row["person"]] - p["difficulty"][row["item"]], row["right"])

    init = {"ability": jnp.zeros(PERSONS), "difficulty": jnp.zeros(ITEMS)}
    return Case(Posterior(log_likelihood, normal_prior), answers(), init)


@model
def item_response_2pl():
    def log_likelihood(p, row):
        slope = jnp.exp(p["log_slope"][row["item"]])
        return bernoulli(slope * (p["ability"][row["person"]] - p["difficulty"][row["item"]]), row["right"])

    init = {"ability": jnp.zeros(PERSONS), "difficulty": jnp.zeros(ITEMS), "log_slope": jnp.zeros(ITEMS)}
    return Case(Posterior(log_likelihood, normal_prior), answers(), init)


def guessing(p, row):
    slope, guess = jnp.exp(p["log_slope"][row["item"]]), jax.nn.sigmoid(p["guess"][row["item"]])
    return guess + (1 - guess) * jax.nn.sigmoid(slope * (p["ability"][row["person"]] - p["difficulty"][row["item"]]))


def guessing_init():
    return {
        "ability": jnp.zeros(PERSONS),
        "difficulty": jnp.zeros(ITEMS),
        "log_slope": jnp.zeros(ITEMS),
        "guess": -jnp.ones(ITEMS),
    }


@model
def item_response_3pl():
    def log_likelihood(p, row):
        chance = guessing(p, row)
        return jnp.where(row["right"] == 1, jnp.log(chance), jnp.log1p(-chance))

    return Case(Posterior(log_likelihood, normal_prior), answers(), guessing_init())


@model
def item_response_3pl_logpmf():
    return Case(
        Posterior(lambda p, row: stats.bernoulli.logpmf(row["right"], guessing(p, row)), normal_prior),
        answers(),
        guessing_init(),
    )


@model
def item_response_3pl_xlogy():
    def log_likelihood(p, row):
        chance = guessing(p, row)
        return xlogy(row["right"], chance) + xlogy(1 - row["right"], 1 - chance)  # JAX differentiates by the integer

    return Case(Posterior(log_likelihood, normal_prior), answers(), guessing_init(), expected="refused")


@model
def item_response_power_of_integer():
    def log_likelihood(p, row):
        chance = guessing(p, row)
        return jnp.log(chance ** row["right"] * (1 - chance) ** (1 - row["right"]))

    return Case(Posterior(log_likelihood, normal_prior), answers(), guessing_init())


@model
def bradley_terry():
    data = np.stack([integers(15, 300), integers(15, 300, seed=1)], axis=1)
    return Case(
        Posterior(lambda skill, pair: jax.nn.log_sigmoid(skill[pair[0]] - skill[pair[1]]), normal_prior),
        data,
        jnp.zeros(15),
    )


@model
def bradley_terry_with_ties():
    data = {"home": integers(15, 300), "away": integers(15, 300, seed=1), "result": integers(3, 300, seed=2)}

    def log_likelihood(p, row):
        gap = p["skill"][row["home"]] - p["skill"][row["away"]]
        return jax.nn.log_softmax(jnp.stack([gap, p["tie"], -gap]))[row["result"]]

    return Case(Posterior(log_likelihood, normal_prior), data, {"skill": jnp.zeros(15), "tie": jnp.zeros(())})


@model
def plackett_luce_ranking():
    rankings = np.argsort(normals(200, 5), axis=1)

    def log_likelihood(worth, ranking):
        left = worth[ranking][::-1]
        return jnp.sum(left - jax.lax.cumlogsumexp(left))

    return Case(Posterior(log_likelihood, normal_prior), rankings, jnp.zeros(5))


@model
def matrix_factorisation():
    data = {"user": integers(25, 500), "film": integers(40, 500, seed=1), "stars": integers(5, 500, seed=2)}

    def log_likelihood(p, row):
        return gaussian(p["U"][row["user"]] @ p["V"][row["film"]] + p["mean"], row["stars"])

    init = {"U": jnp.asarray(normals(25, 3) / 3), "V": jnp.asarray(normals(40, 3) / 3), "mean": jnp.asarray(2.0)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def factorisation_machine():
    data = {"fields": integers(50, 300, 4), "y": normals(300)}

    def log_likelihood(p, row):
        vectors = p["V"][row["fields"]]
        pairs = 0.5 * jnp.sum(vectors.sum(0) ** 2 - (vectors**2).sum(0))
        return gaussian(jnp.sum(p["w"][row["fields"]]) + pairs, row["y"])

    init = {"w": jnp.zeros(50), "V": jnp.asarray(normals(50, 2) / 5)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def binomial_regression():
    data = {"x": normals(200, 3), "n": 5 + integers(10, 200), "k": integers(5, 200, seed=1)}

    def log_likelihood(theta, row):
        return stats.binom.logpmf(row["k"], row["n"], jax.nn.sigmoid(row["x"] @ theta))

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(3))


@model
def beta_binomial():
    data = {"n": 5 + integers(10, 200), "k": integers(5, 200, seed=1)}

    def log_likelihood(p, row):
        return stats.betabinom.logpmf(row["k"], row["n"], jnp.exp(p["a"]), jnp.exp(p["b"]))

    return Case(Posterior(log_likelihood, normal_prior), data, {"a": jnp.zeros(()), "b": jnp.zeros(())})


@model
def multinomial_counts():
    data = np.random.default_rng(0).multinomial(20, [0.2, 0.3, 0.5], 150)

    def log_likelihood(logits, k):
        return gammaln(k.sum() + 1.0) - jnp.sum(gammaln(k + 1.0)) + jnp.sum(k * jax.nn.log_softmax(logits))

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(3))


@model
def multinomial_logpmf():
    data = np.random.default_rng(0).multinomial(20, [0.2, 0.3, 0.5], 150)
    return Case(
        Posterior(lambda logits, k: stats.multinomial.logpmf(k, 20, jax.nn.softmax(logits)), normal_prior),
        data,
        jnp.zeros(3),
    )


@model
def zero_inflated_poisson():
    data = counts()
    data["y"][::2] = 0

    def log_likelihood(p, row):
        log_rate = row["x"] @ p["beta"]
        log_zero = jax.nn.log_sigmoid(p["gate"])
        log_count = jax.nn.log_sigmoid(-p["gate"]) + row["y"] * log_rate - jnp.exp(log_rate) - gammaln(row["y"] + 1.0)
        return jnp.where(row["y"] == 0, jnp.logaddexp(log_zero, log_count), log_count)

    return Case(Posterior(log_likelihood, normal_prior), data, {"beta": jnp.zeros(4), "gate": jnp.zeros(())})


@model
def hurdle_model():
    def log_likelihood(p, row):
        rate = jnp.exp(row["x"] @ p["beta"])
        positive = stats.poisson.logpmf(row["y"], rate) - jnp.log(-jnp.expm1(-rate))
        return jnp.where(row["y"] > 0, jax.nn.log_sigmoid(p["gate"]) + positive, jax.nn.log_sigmoid(-p["gate"]))

    return Case(Posterior(log_likelihood, normal_prior), counts(), {"beta": jnp.zeros(4), "gate": jnp.zeros(())})


@model
def geometric_distribution():
    data = np.random.default_rng(0).geometric(0.3, 200)
    return Case(
        Posterior(lambda logit, k: stats.geom.logpmf(k, jax.nn.sigmoid(logit)), normal_prior), data, jnp.zeros(())
    )


@model
def ordinal_regression():
    data = classes(250, 3, 4)

    def log_likelihood(p, row):
        cuts = jnp.cumsum(jnp.concatenate([p["first"], jnp.exp(p["gaps"])]))
        below = jax.nn.sigmoid(cuts - row["x"] @ p["beta"])
        edges = jnp.concatenate([jnp.zeros(1), below, jnp.ones(1)])
        return jnp.log(edges[row["y"] + 1] - edges[row["y"]])

    init = {"first": -jnp.ones(1), "gaps": jnp.zeros(2), "beta": jnp.zeros(3)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def mixture_of_gaussians():
    def log_likelihood(p, y):
        weights = jax.nn.log_softmax(p["logits"])
        return logsumexp(weights + stats.norm.logpdf(y, p["means"], jnp.exp(p["log_sigmas"])))

    init = {"logits": jnp.zeros(3), "means": jnp.array([-1.0, 0.0, 1.0]), "log_sigmas": jnp.zeros(3)}
    return Case(Posterior(log_likelihood, normal_prior), normals(300), init)


@model
def mixture_of_multivariate_gaussians():
    def log_likelihood(p, y):
        return logsumexp(jax.nn.log_softmax(p["logits"]) - 0.5 * jnp.sum((y - p["means"]) ** 2, axis=1))

    init = {"logits": jnp.zeros(4), "means": jnp.asarray(normals(4, 2))}
    return Case(Posterior(log_likelihood, normal_prior), normals(300, 2), init)


@model
def mixture_with_integer_classes():
    def log_likelihood(p, row):
        return jax.nn.log_softmax(p["logits"])[row["z"]] + gaussian(p["means"][row["z"]], row["y"])

    data = {"z": integers(3, 200), "y": normals(200)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"logits": jnp.zeros(3), "means": jnp.zeros(3)})


@model
def mixture_of_experts():
    def log_likelihood(p, row):
        gates = jax.nn.log_softmax(row["x"] @ p["gate"])
        return logsumexp(gates - 0.5 * (row["y"] - row["x"] @ p["expert"]) ** 2)

    data = {"x": normals(200, 4), "y": normals(200)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"gate": jnp.zeros((4, 3)), "expert": jnp.zeros((4, 3))})


@model
def latent_dirichlet_words():
    data = {"document": integers(10, 500), "word": integers(30, 500, seed=1)}

    def log_likelihood(p, row):
        topics = jax.nn.log_softmax(p["topics"][row["document"]])
        return logsumexp(topics + jax.nn.log_softmax(p["words"], axis=1)[:, row["word"]])

    init = {"topics": jnp.zeros((10, 3)), "words": jnp.asarray(normals(3, 30) / 10)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def varying_intercepts():
    data = {"school": integers(8, 300), "x": normals(300), "y": normals(300, seed=1)}

    def log_likelihood(p, row):
        school = row["school"]
        return gaussian(p["mean"] + jnp.exp(p["log_tau"]) * p["z"][school] + p["slopes"][school] * row["x"], row["y"])

    init = {"mean": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(8), "slopes": jnp.zeros(8)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def ideal_points_int8():
    data = {
        "member": integers(20, 300).astype(np.int8),
        "bill": integers(30, 300, seed=1).astype(np.int16),
        "vote": integers(2, 300, seed=2).astype(np.uint8),
    }

    def log_likelihood(p, row):
        logit = p["weight"][row["bill"]] * p["point"][row["member"]] + p["bias"][row["bill"]]
        return bernoulli(logit, row["vote"])

    init = {"point": jnp.asarray(normals(20)), "weight": jnp.ones(30), "bias": jnp.zeros(30)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def skip_gram_with_negatives():
    data = {"centre": integers(40, 300), "context": integers(40, 300, seed=1), "negative": integers(40, 300, 5)}

    def log_likelihood(p, row):
        centre = p["in"][row["centre"]]
        near = jax.nn.log_sigmoid(centre @ p["out"][row["context"]])
        return near + jnp.sum(jax.nn.log_sigmoid(-p["out"][row["negative"]] @ centre))

    init = {"in": jnp.asarray(normals(40, 4) / 5), "out": jnp.asarray(normals(40, 4, seed=1) / 5)}
    return Case(Posterior(log_likelihood, normal_prior), data, init)


@model
def stochastic_block_model():
    data = np.concatenate([integers(12, 300, 2), integers(2, 300, 1, seed=1)], axis=1)

    def log_likelihood(p, row):
        a, b = jax.nn.softmax(p["member"][row[0]]), jax.nn.softmax(p["member"][row[1]])
        chance = a @ jax.nn.sigmoid(p["block"]) @ b
        return jnp.where(row[2], jnp.log(chance), jnp.log1p(-chance))

    init = {"member": jnp.asarray(normals(12, 2)), "block": jnp.zeros((2, 2))}
    return Case(Posterior(log_likelihood, normal_prior), data, init)
