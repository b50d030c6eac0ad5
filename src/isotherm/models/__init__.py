"""Log-likelihoods and log-priors, all of one shape.

A model is a frozen dataclass: two built with the same arguments are equal, and so are their methods.

- `init(key, scale=0.1, dtype=None)`: parameters to start from, drawn from N(0, scale² I);
- `log_likelihood(params, example)`: log p(y|x, θ) of ONE example `{"x": ..., "y": ...}`;
- `log_prior(params)`: log N(θ; 0, prior_variance · I);
- `predict(params, x)`: for m inputs, log-probabilities (m, classes), or the mean (m,) of a regression;
- `class_index(y)`: the column of `predict` that belongs to a label (classifiers only).

`GeneralisedLinear` and `Network` take a family (`models.families`), which says how y is distributed given what they
make of x. Computation runs in the parameters' dtype; examples are cast to it.
"""

from isotherm.models import families
from isotherm.models.drbm import DRBM
from isotherm.models.model import GeneralisedLinear, Network
from isotherm.models.regression import MLP, Linear, Logistic, Softmax
from isotherm.models.regression import PoissonRegression as Poisson

__all__ = ["DRBM", "MLP", "GeneralisedLinear", "Linear", "Logistic", "Network", "Poisson", "Softmax", "families"]
