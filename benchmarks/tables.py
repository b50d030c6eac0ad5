"""Tables through the command line, beside scikit-learn and NUTS: the figures of docs/measured/estimators.md.

    python benchmarks/tables.py make FOLDER    large.csv, with 1,000,000 rows and 30 columns, and three small tables
    isotherm fit FOLDER/large.csv --target bought --missing mean
    python benchmarks/tables.py sklearn large.zarr    log loss of held-out rows, beside LogisticRegression's
    python benchmarks/tables.py nuts diabetes.zarr    intervals of all coefficients, beside those of NUTS

`nuts` samples the same posterior with BlackJAX's NUTS, in coordinates that the run's own draws whiten.
"""

import argparse
import time
from pathlib import Path

import numpy as np


def make(folder: Path) -> None:
    from sklearn import datasets

    folder.mkdir(parents=True, exist_ok=True)
    make_large(folder / "large.csv")
    for name, options in (("breast_cancer", {}), ("digits", {}), ("diabetes", {"scaled": False})):
        frame = getattr(datasets, f"load_{name}")(as_frame=True, **options).frame
        frame.to_csv(folder / f"{name}.csv", index=False)


def make_large(path: Path, rows: int = 1_000_000, seed: int = 0) -> None:
    """28 numbers on scales from 0.01 to 1000, two categories of 50 and 500 levels, some with few rows, and a target; of
    seven columns of numbers 2 % are missing, of one category 1 %."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(seed)
    scales, offsets = 10.0 ** rng.uniform(-2, 3, 28), 10.0 ** rng.uniform(-1, 3, 28)
    x = rng.standard_normal((rows, 28))
    x[:, 1:] += 0.5 * x[:, :-1]
    city, shop = rng.zipf(1.2, rows) % 50, rng.zipf(1.3, rows) % 500
    eta = x @ (0.3 * rng.standard_normal(28)) + 0.5 * rng.standard_normal(50)[city]
    eta += 0.5 * rng.standard_normal(500)[shop] - 1
    bought = rng.random(rows) < 1 / (1 + np.exp(-eta))
    columns = {}
    for i in range(28):
        missing = rng.random(rows) < 0.02 if i % 4 == 0 else None
        columns[f"x{i + 1}"] = pa.array(np.round(offsets[i] + scales[i] * x[:, i], 6), mask=missing)
    columns["city"] = pa.array(np.char.mod("city %02d", city), mask=rng.random(rows) < 0.01)
    columns["shop"] = pa.array(np.char.mod("shop %03d", shop))
    columns["bought"] = pa.array(np.where(bought, "yes", "no"))
    csv.write_csv(pa.table(columns), path)


def beside_sklearn(run: Path) -> None:
    """LogisticRegression on the same standardised numbers and a column for each level, with the same prior."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    from isotherm.store.arrays import open_results
    from isotherm.tables import model, preparing, recipe

    made = recipe.read(run)
    _, train, held_out = preparing.prepare_again(made)

    def matrix(batch: dict[str, np.ndarray]) -> sparse.csr_matrix:
        rows, effects = len(batch["y"]), sparse.csr_matrix((len(batch["y"]), made.offsets[-1]), dtype=np.float32)
        for codes in batch["codes"].T if "codes" in batch else ():
            there = np.flatnonzero(codes >= 0)
            effects += sparse.csr_matrix((np.ones(len(there), np.float32), (there, codes[there])), effects.shape)
        return sparse.hstack([sparse.csr_matrix(batch.get("x", np.zeros((rows, 0)))), effects], format="csr")

    began = time.process_time()
    fitted = LogisticRegression(C=made.prior_scale**2, max_iter=1000).fit(matrix(train), train["y"])
    seconds = time.process_time() - began
    theirs = log_loss(held_out["y"], fitted.predict_proba(matrix(held_out)))
    ours = -float(model.log_densities(model.build(made), open_results(run), held_out).mean())
    print(f"log loss of {len(held_out['y']):,} held-out rows: isotherm {ours:.5f}, LogisticRegression {theirs:.5f}")
    print(f"({100 * (ours / theirs - 1):+.3f} %; LogisticRegression took {seconds:.0f} s of processor time)")


def beside_nuts(run: Path, draws: int, seed: int = 0) -> None:
    import blackjax
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    from isotherm.store.arrays import open_results
    from isotherm.tables import model, preparing, recipe, results

    made = recipe.read(run)
    built, train = model.build(made), jax.tree.map(jnp.asarray, preparing.prepare_again(made).train)
    own = model.all_draws(open_results(run))
    flat = np.stack([ravel_pytree({k: v[i] for k, v in own.items()})[0] for i in range(len(own["intercept"]))])
    _, unravel = ravel_pytree({name: jnp.zeros(shape) for name, shape in built._shapes().items()})
    mean = jnp.asarray(flat.mean(axis=0), jnp.float32)
    values, vectors = np.linalg.eigh(np.cov(flat.T))
    factor = jnp.asarray(vectors * np.sqrt(np.maximum(values, 1e-6 * values.max())), jnp.float32)

    def density(z: jax.Array) -> jax.Array:
        params = unravel(mean + factor @ z)
        return jax.vmap(built.log_likelihood, (None, 0))(params, train).sum() + built.log_prior(params)

    began = time.process_time()
    warm, key = jax.random.split(jax.random.key(seed))
    adapted = blackjax.window_adaptation(blackjax.nuts, density).run(warm, jnp.zeros_like(mean), num_steps=500)
    (state, parameters), _ = adapted
    kernel = blackjax.nuts(density, **parameters)
    step = jax.jit(lambda state, keys: jax.lax.scan(lambda s, k: (kernel.step(k, s)[0],) * 2, state, keys))
    _, states = step(state, jax.random.split(key, draws))
    theirs = np.asarray(mean + states.position @ factor.T, np.float64)
    seconds = time.process_time() - began
    named = jax.vmap(unravel)(jnp.asarray(theirs, jnp.float32))
    reference = results.coefficients(made, {k: np.asarray(v, np.float64) for k, v in named.items()})
    report_agreement(results.coefficients(made, own), reference, len(flat), draws, seconds)


def report_agreement(ours: list, theirs: list, count: int, draws: int, seconds: float) -> None:
    """How far the ends of intervals are apart, over the width of NUTS's, and how the widths compare."""
    width = np.array([each.high - each.low for each in theirs])
    ratio = np.array([each.high - each.low for each in ours]) / width
    ends = np.array([[a.low - b.low, a.high - b.high] for a, b in zip(ours, theirs, strict=True)]) / width[:, None]
    print(f"{len(ours)} coefficients; {count:,} draws, NUTS {draws:,} in {seconds:.0f} s of processor time")
    print(f"width over NUTS's: median {np.median(ratio):.3f}, from {ratio.min():.3f} to {ratio.max():.3f}")
    far = abs(ends).max(axis=1)
    worst = ours[int(far.argmax())].name
    print(f"ends apart, over the width: median {np.median(far):.3f}, at most {far.max():.3f} ({worst})")
    print(f"coefficients with both within 10 %: {np.mean((far < 0.1) & (abs(ratio - 1) < 0.1)):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "sklearn", "nuts"])
    parser.add_argument("place", type=Path)
    parser.add_argument("--draws", type=int, default=4000, help="of NUTS")
    options = parser.parse_args()
    if options.what == "make":
        make(options.place)
    elif options.what == "sklearn":
        beside_sklearn(options.place)
    else:
        beside_nuts(options.place, options.draws)


if __name__ == "__main__":
    main()
