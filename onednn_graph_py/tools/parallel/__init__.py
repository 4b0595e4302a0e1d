"""Models in many processes: `Predictor` is a worker of Ray, joblib or concurrent.futures."""

from .cores import UnpinnedWarning
from .predictor import Model, Predictor

__all__ = ["Model", "Predictor", "UnpinnedWarning"]
