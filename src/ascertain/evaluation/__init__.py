"""Scores of policies: at every budget, on complete rows or on rows with holes, and of fixed routes."""

from ascertain.evaluation._curves import evaluate as evaluate
from ascertain.evaluation._curves import evaluate_soft as evaluate_soft
from ascertain.evaluation._incomplete import evaluate_incomplete as evaluate_incomplete
from ascertain.evaluation._propensity import availability_weights as availability_weights
from ascertain.evaluation._routes import route_structure as route_structure
