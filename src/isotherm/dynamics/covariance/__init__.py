"""The covariance S of the force and the curvature K of −log π, remembered over batches.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike (`running`) or a memory of
the last w or so (`windowed`). It gives coordinates in which Ŝ is diagonal, and what the curvature is along each of
them. `Estimate` says what it can do; it comes in three sizes:

    Dense      Ŝ and K̂ themselves and the eigen-decomposition of Ŝ; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues in all other directions; kd memory
    Diagonal   its diagonal
"""

from isotherm.dynamics.covariance.dense import Dense
from isotherm.dynamics.covariance.diagonal import Diagonal
from isotherm.dynamics.covariance.estimate import (
    LONGEST_INTERVAL,
    Calendar,
    Coordinates,
    Directions,
    Estimate,
    Local,
    Needs,
    blend,
    is_power_of_two,
    running,
    windowed,
)
from isotherm.dynamics.covariance.low_rank import LowRank

__all__ = ["Calendar", "Coordinates", "Dense", "Diagonal", "Directions", "Estimate", "Local", "LowRank", "Needs"]
__all__ += ["LONGEST_INTERVAL", "blend", "is_power_of_two", "running", "windowed"]
