"""Data sets, one a file: where each is from, what its files must contain, how they become arrays.

Nothing heavy is imported here; scikit-learn and pooch are, when a loader needs them.
"""

from isotherm.datasets import acoustic, cifar10, digits, letter, linear_regression, mnist
from isotherm.datasets.catalogue import Status, catalogue, check, fetch
from isotherm.datasets.source import DatasetError, Split

__all__ = [
    "DatasetError",
    "Split",
    "Status",
    "acoustic",
    "catalogue",
    "check",
    "cifar10",
    "digits",
    "fetch",
    "letter",
    "linear_regression",
    "mnist",
]
