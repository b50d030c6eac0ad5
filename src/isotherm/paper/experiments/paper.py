"""The paper's numbers: posterior expected log losses, by data set, then (method, step size, friction).

`nan` and `inf` stand as printed. "Improving the stability of the covariance-controlled adaptive Langevin thermostat for
large-scale Bayesian sampling", Table 1 (MNIST, CIFAR-10) and Table 3 (letter, acoustic). Figures hold no numbers that
could be read off; what the text says of them is in docs/measured/paper.md.
"""

from math import inf, nan

METHODS = ("sghmc", "sgnht", "ccadl", "mccadl")
# A row: the step size, then the four methods at A = 1 and the four at A = 10.
TABLES = {
    # Table 1
    "mnist-7-9": (
        (1.2e-4, 0.4186, 0.2626, 0.1608, 0.1698, 0.2619, 0.2241, 0.1582, 0.1642),
        (5e-4, 3.3546, 0.2410, nan, 0.1555, 0.4583, 0.2221, nan, 0.1551),
        (1.2e-3, inf, 0.2945, nan, 0.1622, 1.1128, 0.2736, nan, 0.1614),
    ),
    "cifar10-airplane-automobile": (
        (3.8e-4, 2.3260, 0.5785, 0.4664, 0.4671, 0.5694, 0.5229, 0.4655, 0.4659),
        (1e-3, 6.2227, 0.5836, nan, 0.4688, 0.8750, 0.5596, nan, 0.4677),
        (1.5e-3, 9.8335, 0.6049, nan, 0.4725, 1.1894, 0.5840, nan, 0.4715),
    ),
    "cifar10-deer-horse": (
        (3.9e-4, 2.0485, 0.7538, 0.6165, 0.6181, 0.7567, 0.6908, 0.6162, 0.6173),
        (1e-3, 9.5790, 0.7614, nan, 0.6206, 1.1854, 0.7363, nan, 0.6193),
        (1.5e-3, 13.0544, 0.7847, nan, 0.6241, 1.6577, 0.7552, nan, 0.6237),
    ),
    "cifar10-cat-dog": (
        (3.5e-4, 2.1113, 0.8332, 0.6803, 0.6813, 0.8329, 0.7699, 0.6804, 0.6801),
        (1e-3, 8.8982, 0.8475, nan, 0.6838, 1.3210, 0.8082, nan, 0.6825),
        (1.5e-3, 15.9131, 0.8765, nan, 0.6880, 1.9174, 0.8615, nan, 0.6880),
    ),
    # Table 3
    "letter": (
        (2e-2, 1.5244, 0.4269, nan, 0.4320, 0.3299, 0.3029, nan, 0.2656),
        (2.5e-2, 2.4337, 0.3908, nan, 0.4692, 0.3740, 0.3375, nan, 0.2764),
        (3e-2, 2.5606, 0.4305, nan, 0.4572, 0.3735, 0.3467, nan, 0.2770),
    ),
    "acoustic": (
        (1.5e-3, 0.8727, 0.6568, nan, 0.5787, 0.6338, 0.6594, nan, 0.6137),
        (2.5e-3, 0.9888, 0.6415, nan, 0.5656, 0.6338, 0.6445, nan, 0.5949),
        (3.5e-3, 0.9757, 0.6279, nan, 0.5615, 0.6543, 0.6401, nan, 0.5933),
    ),
}


def losses(dataset: str) -> dict[tuple[str, float, float], float]:
    """Every number the paper prints for a data set, by (method, step size, friction)."""
    columns = [(method, friction) for friction in (1.0, 10.0) for method in METHODS]
    return {
        (method, step_size, friction): loss
        for step_size, *row in TABLES.get(dataset, ())
        for (method, friction), loss in zip(columns, row, strict=True)
    }
