"""Predictors of the class from any subset of the features."""

from ascertain.predictors._masked_mlp import Predictor as Predictor
from ascertain.predictors._masked_mlp import SklearnPredictor as SklearnPredictor
from ascertain.predictors._masked_mlp import fit_predictor as fit_predictor
from ascertain.predictors._registry import PredictorPart as PredictorPart
from ascertain.predictors._registry import get as get
from ascertain.predictors._registry import names as names
from ascertain.predictors._registry import register as register
