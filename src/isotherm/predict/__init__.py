"""Predictions from draws: `predict`."""

from isotherm.predict.prediction import predict

__all__ = ["predict"]
