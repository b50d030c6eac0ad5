"""How good draws are: arrays in, numbers out, one kind of estimate a file. None of them knows a sampler."""

from isotherm.diagnostics.halving import step_halving
from isotherm.diagnostics.kernel import kernel_stein_discrepancy
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
from isotherm.diagnostics.temperature import configurational_temperature

__all__ = [
    "average",
    "configurational_temperature",
    "error",
    "expected_calibration_error",
    "expected_log_loss",
    "gaussian_w2",
    "kernel_stein_discrepancy",
    "log_loss",
    "log_losses",
    "mean_error",
    "predictive_error",
    "predictive_log_loss",
    "stein_bias",
    "stein_moments",
    "stein_tails",
    "step_halving",
    "variance_ratio",
]
