"""Whether to believe draws, and how good they are: arrays or results in, numbers and sentences out, one kind a file."""

from isotherm.diagnostics.predictive import average, error, expected_calibration_error, log_loss, log_losses
from isotherm.diagnostics.stein import stein_bias, stein_moments, stein_tails

__all__ = [
    "average",
    "error",
    "expected_calibration_error",
    "log_loss",
    "log_losses",
    "stein_bias",
    "stein_moments",
    "stein_tails",
]
