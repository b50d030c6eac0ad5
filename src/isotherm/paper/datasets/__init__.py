"""Data sets, one a file: how its files become arrays; where they are from and what they must contain: sources.toml.

Importing this is cheap: scikit-learn, requests and pyarrow are imported only when a loader needs them.
"""

from isotherm.paper.datasets import acoustic, cifar10, digits, flights, letter, linear_regression, mnist
from isotherm.paper.datasets.lookup import Status, catalogue, check, fetch
from isotherm.paper.datasets.source import DatasetError, Split
from isotherm.tables.convert import convert, open_arrays

__all__ = [
    "DatasetError",
    "Split",
    "Status",
    "acoustic",
    "catalogue",
    "check",
    "cifar10",
    "convert",
    "digits",
    "fetch",
    "flights",
    "letter",
    "linear_regression",
    "mnist",
    "open_arrays",
]
