"""The numbers that the paper publishes."""

from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over five splits and its standard error, to three decimals."""

    mean: float
    error: float


class PublishedRoutes(NamedTuple):
    """A dataset in table 1."""

    budget: float
    v_static: Estimate
    sensitivity: Estimate
    overlap: Estimate


class PublishedMethod(NamedTuple):
    """A method in table 2: means over the eight datasets, under MCAR at p = 0.7."""

    complete: float
    margin: float
    damage: float


_Pair = tuple[float, float]
_TABLE_1: dict[str, tuple[float, _Pair, _Pair, _Pair]] = {
    # Budget; mean and standard error of V_static, Delta_route and omega_route.
    "miniboone": (15, (0.894, 0.004), (0.058, 0.003), (0.181, 0.000)),
    "cube_nuc": (7, (0.847, 0.019), (0.174, 0.017), (0.221, 0.000)),
    "actg175": (10, (0.846, 0.012), (0.175, 0.012), (0.287, 0.001)),
    "cube": (10, (0.824, 0.010), (0.245, 0.010), (0.342, 0.000)),
    "nhanes_mortality": (10, (0.731, 0.005), (0.009, 0.002), (0.669, 0.000)),
    "heart_disease": (7, (0.720, 0.019), (0.127, 0.015), (0.264, 0.003)),
    "diabetes": (15, (0.679, 0.003), (0.166, 0.001), (0.205, 0.000)),
    "cube_nm": (14, (0.317, 0.020), (0.059, 0.010), (0.164, 0.000)),
}
ROUTES = {
    dataset: PublishedRoutes(budget, *(Estimate(*pair) for pair in measures))
    for dataset, (budget, *measures) in _TABLE_1.items()
}

METHODS = {
    "dime": PublishedMethod(0.705, -0.027, 0.002),
    "odin": PublishedMethod(0.667, -0.065, 0.009),
    "gdfs": PublishedMethod(0.745, 0.013, 0.059),
    "aaco": PublishedMethod(0.758, 0.026, 0.062),
    "jafa": PublishedMethod(0.707, -0.026, 0.072),
    "ol": PublishedMethod(0.745, 0.013, 0.092),
}
TWO_STATES = ("jafa", "ol", "odin")  # whose state variants the paper averages
PEARSON, SPEARMAN = 0.59, 0.34  # between margin and damage (caption of table 2)

# Section 5.4, on complete data, to two decimals.
CUBE_NM_COMPLETE = {"dime": 0.24, "odin": 0.27}

# Appendix B.3.
MEDIAN_RATIO = 1.15
WITHIN_1_25, WITHIN_1_5 = 0.59, 0.74
MEDIAN_AMORTISED = 29.3  # seconds
