"""How good draws are: arrays in, numbers out, one kind of estimate a file. None of them knows a sampler."""

from isotherm.diagnostics.moments import gaussian_w2, mean_error, variance_ratio
from isotherm.diagnostics.predictive import (
    average,
    error,
    expected_calibration_error,
    expected_log_loss,
    log_loss,
    log_losses,
    predictive_error,
    predictive_log_loss,
)

__all__ = [
    "average",
    "error",
    "expected_calibration_error",
    "expected_log_loss",
    "gaussian_w2",
    "log_loss",
    "log_losses",
    "mean_error",
    "predictive_error",
    "predictive_log_loss",
    "variance_ratio",
]
