"""Estimates of how good draws are: arrays in, numbers out, one kind a file. None of them knows a sampler."""

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
from isotherm.diagnostics.stein import stein_bias, stein_moments, stein_tails

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
    "stein_bias",
    "stein_moments",
    "stein_tails",
    "variance_ratio",
]
