"""Estimators beside scikit-learn's and beside bde: how good their probabilities are, and how long they take.

    python benchmarks/estimators.py [--data DIR] [--only digits,mnist-7-9,cifar10,networks,regression] [--bde PYTHON]

Logistic regression: `isotherm.BayesianLogisticRegression` as it is, and scikit-learn's LogisticRegression on
standardised columns, with its default penalty and without one, on the same rows; on digits, which has few, by
cross-validation with four folds. Networks: one hidden layer of 32 units, on digits and on diabetes, with a quarter of
the rows held out. bde (scikit-learn-contrib's Bayesian deep ensembles) is run by the Python that `--bde` names, with
the settings of its own examples and four members, on the same standardised columns and targets, and so is
scikit-learn's network; of its MLPRegressor, which has no noise, σ is that of its residuals in training.

Log loss and negative log-likelihood are in nats for a test row, ECE has 15 bins; with
standard errors over test rows, that of ECE by the bootstrap. Every line is a process of its own, compilation included.
Markdown on standard output.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN = 32
FOLDS = 4  # of digits
RESAMPLES = 200  # of the bootstrap
PLAIN = "scikit-learn, no penalty"
LOGISTIC = ("isotherm", "scikit-learn", PLAIN)
NETWORK = ("isotherm", "scikit-learn", "bde")
TASKS = {"digits": LOGISTIC, "mnist-7-9": LOGISTIC, "cifar10": LOGISTIC, "networks": NETWORK, "regression": NETWORK}
TITLES = {
    "digits": "logistic regression, digits (1,797 rows in four folds, 64 columns, 10 classes)",
    "mnist-7-9": "logistic regression, MNIST 7/9 (12,214 rows, 100 projections)",
    "cifar10": "logistic regression, CIFAR-10 airplane/automobile (10,000 rows, 400 principal axes)",
    "networks": "network of 32 units, digits",
    "regression": "network of 32 units, diabetes (331 rows, 10 columns)",
}


def load(task: str, folder: Path | None) -> tuple[np.ndarray, ...]:
    """Training and test rows, training and test targets; of digits all rows, each predicted by a fit without it."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.model_selection import train_test_split

    from isotherm.paper.datasets import cifar10, mnist

    if task == "digits":
        X, y = load_digits(return_X_y=True)
        return X, X, y, y
    if task == "networks":
        return train_test_split(*load_digits(return_X_y=True), test_size=0.25, random_state=0)
    if task == "regression":
        return train_test_split(*load_diabetes(return_X_y=True), test_size=0.25, random_state=0)
    if task == "mnist-7-9":
        train, test = mnist.pair(7, 9, projection=100, seed=0, data_dir=folder)
    else:
        train, test = cifar10.pair("airplane", "automobile", components=400, data_dir=folder)
    return tuple(np.asarray(part[name]) for name in "xy" for part in (train, test))


def model_of(task: str, library: str) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if library.startswith("scikit-learn"):
        network = {"hidden_layer_sizes": (HIDDEN,), "random_state": 0}
        plain = {
            "networks": MLPClassifier(**network, max_iter=1000),
            "regression": TransformedTargetRegressor(
                MLPRegressor(**network, max_iter=5000), transformer=StandardScaler()
            ),
        }.get(task, LogisticRegression(max_iter=5000, C=np.inf if library == PLAIN else 1.0))
        return make_pipeline(StandardScaler(), plain)
    import isotherm

    network = {"hidden": (HIDDEN,), "random_state": 0}
    return {
        "networks": lambda: isotherm.BayesianMLPClassifier(**network),
        "regression": lambda: isotherm.BayesianMLPRegressor(**network),
    }.get(task, lambda: isotherm.BayesianLogisticRegression(random_state=0))()


def bde_predictions(task: str, X: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, ...]:
    """Probabilities, or means and standard deviations; with the settings of bde's own examples."""
    from bde import BdeClassifier, BdeRegressor
    from bde.loss import CategoricalCrossEntropy, GaussianNLL

    centre, scale = X.mean(axis=0), X.std(axis=0) + 1e-8
    X, test = ((part - centre) / scale for part in (X, test))
    common = {
        "n_members": 4,
        "hidden_layers": [HIDDEN],
        "seed": 0,
        "validation_split": 0.15,
        "lr": 1e-3,
        "patience": 10,
    }
    if task == "networks":
        model = BdeClassifier(
            **common, loss=CategoricalCrossEntropy(), epochs=1000, warmup_steps=400, n_samples=100, n_thinning=1
        )
        model.fit(x=X.astype("float32"), y=y.astype("int32"))
        return (np.asarray(model.predict_proba(test.astype("float32")), np.float64),)
    model = BdeRegressor(**common, loss=GaussianNLL(), epochs=200, warmup_steps=5000, n_samples=2000, n_thinning=2)
    model.fit(x=X, y=((y - y.mean()) / y.std()).reshape(-1, 1))
    mean, sd = (np.ravel(np.asarray(part, np.float64)) for part in model.predict(test, mean_and_std=True))
    return y.mean() + y.std() * mean, y.std() * sd


def predictions(task: str, library: str, X: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, ...]:
    if library == "bde":
        return bde_predictions(task, X, y, test)
    model = model_of(task, library)
    if task == "digits":
        from sklearn.model_selection import StratifiedKFold, cross_val_predict

        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        return (cross_val_predict(model, X, y, cv=folds, method="predict_proba"),)
    model.fit(X, y)
    if task != "regression":
        return (model.predict_proba(test),)
    if library == "isotherm":
        return model.predict(test, return_std=True)
    return model.predict(test), np.full(len(test), np.std(y - model.predict(X)))


def measure(task: str, library: str, file: str) -> None:
    """Fit, predict, and say what came out, as a line of JSON."""
    warnings.simplefilter("ignore")
    with np.load(file) as arrays:
        X, test, y = (arrays[name] for name in ("X", "test", "y"))
    began, used = time.perf_counter(), time.process_time()
    found = predictions(task, library, X, y, test)
    spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    print(json.dumps(spent | {"found": [part.tolist() for part in found]}))


def scores(task: str, found: list[np.ndarray], truth: np.ndarray) -> str:
    if task == "regression":
        mean, sd = found
        nll = 0.5 * np.log(2 * np.pi * sd**2) + 0.5 * ((truth - mean) / sd) ** 2
        return f"{nll.mean():.4f} | root mean square error {np.sqrt(((truth - mean) ** 2).mean()):.1f}"
    from isotherm.diagnostics import expected_calibration_error

    labels = np.searchsorted(np.unique(truth), truth)
    p = found[0] / found[0].sum(axis=1, keepdims=True)
    losses = -np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12))
    right = (p.argmax(axis=1) == labels).mean()
    ece, rng = expected_calibration_error(p, labels), np.random.default_rng(0)
    again = [rng.integers(len(p), size=len(p)) for _ in range(RESAMPLES)]
    ece_error = np.std([expected_calibration_error(p[rows], labels[rows]) for rows in again])
    error = losses.std() / len(p) ** 0.5
    return f"{losses.mean():.4f} ± {error:.4f} | ECE {ece:.4f} ± {ece_error:.4f}, {right:.2%} right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default=",".join(TASKS))
    parser.add_argument("--bde", help="a Python in which sklearn-contrib-bde is installed")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    print("| | | log loss or NLL | | time | processor |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for task in given.only.split(","):
            X, test, y, truth = load(task, given.data)
            file = Path(folder) / "rows.npz"
            np.savez(file, X=X, test=test, y=y)
            for library in TASKS[task]:
                if library == "bde" and not given.bde:
                    continue
                python = given.bde if library == "bde" else sys.executable
                flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"} if library == "bde" else {}
                command = [python, __file__, "--measure", task, library, str(file)]
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | flags)
                said = json.loads(done.stdout.splitlines()[-1])
                line = scores(task, [np.asarray(part) for part in said["found"]], truth)
                times = f"{said['seconds']:.1f} s | {said['processor']:.1f} s"
                print(f"| {TITLES[task]} | {library} | {line} | {times} |", flush=True)


if __name__ == "__main__":
    main()
