"""Predictors of the class from any subset of the features."""

from ascertain.predictors.masked_mlp import SklearnPredictor as SklearnPredictor
from ascertain.predictors.masked_mlp import fit_predictor as fit_predictor
