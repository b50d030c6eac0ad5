"""A NumPyro model, 100,000 rows, and no full pass over them for a draw.

    python examples/numpyro_model.py [--rows N]

How many trips do people make by bicycle on a day? A Poisson regression with an effect of the temperature, and one for
each of 30 towns, which have a common distribution. It is written as for NUTS; the data are drawn from the model, so
that the table can show what is true. It needs NumPyro: pip install 'isotherm[numpyro]'.
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import isotherm

TOWNS = 30
TRUE = {"intercept": 0.3, "warmth": 0.25, "between_towns": 0.4}


def bicycles(temperature, town, trips, towns):
    intercept = numpyro.sample("intercept", dist.Normal(0, 1))
    warmth = numpyro.sample("warmth", dist.Normal(0, 1))
    between_towns = numpyro.sample("between_towns", dist.HalfNormal(1))
    with numpyro.plate("towns", towns):
        effect = numpyro.sample("effect", dist.Normal(0, between_towns))
    with numpyro.plate("people", len(trips)):
        rate = jnp.exp(intercept + warmth * temperature + effect[town])
        numpyro.sample("trips", dist.Poisson(rate), obs=trips)


def simulated(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows, and the true effects of the towns; one town in three has few people."""
    rng = np.random.default_rng(0)
    effect = rng.standard_normal(TOWNS)
    effect *= TRUE["between_towns"] / effect.std()
    size = np.where(np.arange(TOWNS) % 3 == 0, 0.01, 1.0)
    town = rng.choice(TOWNS, rows, p=size / size.sum())
    temperature = rng.standard_normal(rows)
    rate = np.exp(TRUE["intercept"] + TRUE["warmth"] * temperature + effect[town])
    return {"temperature": temperature, "town": town, "trips": rng.poisson(rate)}, effect


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", metavar="N", type=int, default=100_000)
    options = parser.parse_args(arguments)

    data, effect = simulated(options.rows)
    model = isotherm.from_numpyro(bicycles, data, towns=TOWNS)
    print(model)
    began = time.perf_counter()
    tree = isotherm.fit(model)
    seconds, said = time.perf_counter() - began, tree.attrs
    share = said["batch_size"] / options.rows
    print(f"{said['fit_method']}, {said['batch_size']:,} rows a step ({share:.2%}): {seconds:.0f} seconds")
    print(isotherm.check(tree, model).summary)

    print(f"\n{'':18}   true   mean   95 % interval")
    lines = [(name, TRUE[name], tree.posterior[name]) for name in TRUE]
    count = np.bincount(data["town"], minlength=TOWNS)
    for i in (np.argmin(count), np.argmax(count)):
        lines.append((f"town of {count[i]:,}", effect[i], tree.posterior.effect[..., i]))
    for name, true, draws in lines:
        low, high = np.quantile(draws, [0.025, 0.975])
        print(f"{name:18} {true:6.2f} {float(draws.mean()):6.2f}   {low:5.2f} to {high:5.2f}")


if __name__ == "__main__":
    main()
