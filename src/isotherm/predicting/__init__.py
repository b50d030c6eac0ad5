"""Predictions from draws: `predict`."""

from isotherm.predicting.prediction import predict

__all__ = ["predict"]
