"""Data sets, one a file: where each is from, what its files must contain, how they become arrays.

Importing this is cheap: scikit-learn, pooch and pyarrow are imported only when a loader needs them.
"""

from isotherm.paper.datasets import acoustic, cifar10, digits, flights, letter, linear_regression, mnist
from isotherm.paper.datasets.catalogue import Status, catalogue, check, fetch
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
