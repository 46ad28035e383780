"""The numbers that the paper publishes."""

from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over five splits and its standard error, to three decimals."""

    mean: float
    error: float


class RouteStructure(NamedTuple):
    """A dataset in table 1."""

    budget: float
    v_static: Estimate
    sensitivity: Estimate
    overlap: Estimate


class MethodMeans(NamedTuple):
    """A method in table 2: means over the eight datasets, under MCAR at p = 0.7."""

    complete: float
    margin: float
    damage: float


ROUTES = {
    "miniboone": RouteStructure(15, Estimate(0.894, 0.004), Estimate(0.058, 0.003), Estimate(0.181, 0.000)),
    "cube_nuc": RouteStructure(7, Estimate(0.847, 0.019), Estimate(0.174, 0.017), Estimate(0.221, 0.000)),
    "actg175": RouteStructure(10, Estimate(0.846, 0.012), Estimate(0.175, 0.012), Estimate(0.287, 0.001)),
    "cube": RouteStructure(10, Estimate(0.824, 0.010), Estimate(0.245, 0.010), Estimate(0.342, 0.000)),
    "nhanes_mortality": RouteStructure(
        10, Estimate(0.731, 0.005), Estimate(0.009, 0.002), Estimate(0.669, 0.000)
    ),
    "heart_disease": RouteStructure(
        7, Estimate(0.720, 0.019), Estimate(0.127, 0.015), Estimate(0.264, 0.003)
    ),
    "diabetes": RouteStructure(15, Estimate(0.679, 0.003), Estimate(0.166, 0.001), Estimate(0.205, 0.000)),
    "cube_nm": RouteStructure(14, Estimate(0.317, 0.020), Estimate(0.059, 0.010), Estimate(0.164, 0.000)),
}

METHODS = {
    "dime": MethodMeans(0.705, -0.027, 0.002),
    "odin": MethodMeans(0.667, -0.065, 0.009),
    "gdfs": MethodMeans(0.745, 0.013, 0.059),
    "aaco": MethodMeans(0.758, 0.026, 0.062),
    "jafa": MethodMeans(0.707, -0.026, 0.072),
    "ol": MethodMeans(0.745, 0.013, 0.092),
}
PEARSON, SPEARMAN = 0.59, 0.34  # between margin and damage (caption of table 2)

# Section 5.4, on complete data, to two decimals.
CUBE_NM_COMPLETE = {"dime": 0.24, "odin": 0.27}

# Appendix B.3.
MEDIAN_RATIO = 1.15
WITHIN_1_25, WITHIN_1_5 = 0.59, 0.74
MEDIAN_AMORTISED = 29.3  # seconds
