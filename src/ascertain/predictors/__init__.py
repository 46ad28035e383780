"""Predictors of the class from any subset of the features."""

from ascertain.predictors.masked_mlp import Predictor as Predictor
from ascertain.predictors.masked_mlp import SklearnPredictor as SklearnPredictor
from ascertain.predictors.masked_mlp import fit_predictor as fit_predictor
from ascertain.predictors.registry import PredictorPart as PredictorPart
from ascertain.predictors.registry import get as get
from ascertain.predictors.registry import names as names
from ascertain.predictors.registry import register as register
