"""How much data each approach needs: theorem 1 and proposition 2 of the paper, as numbers."""

import math

from ascertain._core.checks import check_count, check_rate, is_real
from ascertain.errors import InputError
from ascertain.exact._planning import Approach

CONSTANT = 1536  # C of theorem 1, the value that its proof arrives at


def sample_size(
    approach: Approach,
    *,
    d: int,
    budget: int,
    rate: float,
    epsilon: float,
    delta: float,
    values: int = 2,
    loss_bound: float = 1.0,
) -> float:
    """Compute the number of training instances that theorem 1 asks for.

    With at least this many, the plan's regret is at most `epsilon` with probability `1 - delta`, if each
    feature is missing independently with probability `rate` (MCAR) and every feature costs at least 1.

    Parameters
    ----------
    approach
        `"filtering"`, `"restoration"`, or `"complete"` (nothing missing, whatever the rate). No number
        suffices for `"aliasing"`: its regret need not vanish with any amount of data.
    d
        The number of features.
    budget
        The budget, a whole number from 1 to `d`.
    rate
        The probability that a feature is missing.
    epsilon
        The regret to allow, above 0 and at most `loss_bound`.
    delta
        The probability of failure to allow, between 0 and 1.
    values
        The largest number of values of a feature.
    loss_bound
        The largest loss.

    Examples
    --------
    >>> f"{sample_size('restoration', d=6, budget=2, rate=0.6, epsilon=0.1, delta=0.05):.6e}"
    '4.092938e+07'
    """
    if approach == "aliasing":
        raise InputError(
            "no sample size suffices for aliasing: its regret need not vanish with any amount of data; "
            "use filtering or restoration"
        )
    # The number of features that an instance must have to count.
    needed = {"filtering": d, "restoration": budget, "complete": 0}
    if approach not in needed:
        raise InputError(f"approach must be one of {', '.join(needed)}, got {approach!r}")
    d, budget = check_count("d", d, least=1), check_count("budget", budget, least=1)
    if budget > d:
        raise InputError(f"budget must be at most d, got {budget} with d = {d}")
    rate, values = check_rate(rate), check_count("values", values, least=2)
    if not (is_real(loss_bound) and 0 < loss_bound < math.inf):
        raise InputError(f"loss_bound must be above 0, got {loss_bound!r}")
    if not (is_real(epsilon) and 0 < epsilon <= loss_bound):
        raise InputError(f"epsilon must be above 0 and at most loss_bound = {loss_bound:g}, got {epsilon!r}")
    _check_delta(delta)
    confidence = budget * math.log(values * d) + values + math.log(2 / delta)  # Lambda
    log_usable = needed[approach] * math.log1p(-rate)
    log_precision = 2 * (math.log(loss_bound) - math.log(epsilon))
    return _exp(math.log(CONSTANT * confidence) + log_precision + budget * math.log(values) - log_usable)


def filtering_lower_bound(*, d: int, rate: float, delta: float) -> float:
    """Compute the number of training instances that filtering needs at least (proposition 2).

    On the shortcut problem with `d >= 2 * budget + 1`, for some order of its unit-cost features, fewer
    instances leave filtering with a regret of at least 1/4 with probability above `delta`.

    Examples
    --------
    >>> round(filtering_lower_bound(d=6, rate=0.6, delta=0.05), 2)
    231.93
    """
    d, rate = check_count("d", d, least=1), check_rate(rate)
    _check_delta(delta)
    return _exp(math.log1p(-delta) - d * math.log1p(-rate))


def _check_delta(delta: float) -> None:
    if not (is_real(delta) and 0 < delta < 1):
        raise InputError(f"delta must be above 0 and below 1, got {delta!r}")


def _exp(log_number: float) -> float:
    """Exponentiate; infinity beyond the largest float."""
    return math.exp(log_number) if log_number < 709 else math.inf
