"""Arrays in, numbers out: one estimator a file, none of which knows a sampler."""

from isotherm.diagnostics.calibration import expected_calibration_error
from isotherm.diagnostics.predictive import (
    average,
    error,
    expected_log_loss,
    log_loss,
    log_losses,
    predictive_error,
    predictive_log_loss,
)
from isotherm.diagnostics.reference import mean_error, variance_ratio
from isotherm.diagnostics.wasserstein import gaussian_w2

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
