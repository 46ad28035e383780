"""The promises of every missingness mechanism, and a function that checks them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain.missingness import mask_tables
from ascertain.missingness._registry import MechanismPart, find
from ascertain.testing._cases import TrialCase, grouped, incomplete, plain

_ACTIONS = 5  # fewer than features, so that the two cannot be confused
_RATES = (0.0, 0.3, 0.7)


def check_mechanism(mechanism: str | Callable[..., Any]) -> None:
    """Raise an `AssertionError` that says which promise a mechanism breaks, and how; else do nothing.

    Parameters
    ----------
    mechanism
        The name of a registered mechanism, or the function or class that `missingness.register` decorates.

    Examples
    --------
    >>> from ascertain.testing import check_mechanism
    >>> check_mechanism("mar")
    """
    part = find(mechanism)
    for case in (plain(_ACTIONS), grouped(_ACTIONS), incomplete(_ACTIONS)):
        mask = _masking(part, case)
        masks = [mask(rate) for rate in _RATES]
        for rate, available in zip(_RATES, masks, strict=True):
            _only_hides(part, case, available, rate)
            _hides_whole_actions(part, case, available)
            _leaves_every_row_an_action(part, case, available)
        assert np.array_equal(masks[0], case.train.available), f"{part.name}: at rate 0 nothing goes missing"
        assert masks[2].sum() < masks[1].sum(), f"{part.name}: a higher rate must hide more"
        same = np.array_equal(mask(_RATES[1]), masks[1])
        assert same, f"{part.name}: one key must give one mask; take all randomness from it"


def _masking(part: MechanismPart, case: TrialCase) -> Callable[[float], np.ndarray]:
    """A function of the rate: which cells of the training rows are left.

    The rate is traced, as in studies, so that one program serves all.
    """

    def masked(key: Any, rate: Any) -> Any:
        train, valid = mask_tables(key, part, case.problem, case.train, case.valid, rate)
        kept = jnp.where(train.available, train.x == case.train.x, train.x == 0)
        return train.available, jnp.all(kept), valid.available

    compiled = jax.jit(masked)

    def mask(rate: float) -> np.ndarray:
        key, traced = jr.key(0), jnp.asarray(rate, jnp.float32)
        try:
            found = masked(key, rate) if part.on_host else compiled(key, traced)
        except jax.errors.JAXTypeError as error:
            raise AssertionError(
                f"{part.name}: fit and sample must be pure functions of arrays with a traced rate, or be "
                f"registered with on_host=True: {error}"
            ) from error
        available, values_are_kept, _ = found
        kept = f"{part.name}: what stays available must keep its value, the rest is zero"
        assert bool(values_are_kept), kept
        return np.asarray(available)

    return mask


def _only_hides(part: MechanismPart, case: TrialCase, available: np.ndarray, rate: float) -> None:
    added = available & ~np.asarray(case.train.available)
    assert not added.any(), f"{part.name}: at rate {rate:g} cells appear that the table did not have"


def _hides_whole_actions(part: MechanismPart, case: TrialCase, available: np.ndarray) -> None:
    """Check that a feature is lost only together with the others of an action that reveals it."""
    reveals = np.asarray(case.problem.reveals)
    lost = np.asarray(case.train.available) & ~available
    gone = ~(available @ reveals.T)  # actions of which nothing is left
    explained = (gone @ reveals).astype(bool)
    for row, column in np.argwhere(lost & ~explained)[:1]:
        raise AssertionError(
            f"{part.name}: what an action reveals goes missing together, but row {row} lost feature {column} "
            "and kept others of its action"
        )


def _leaves_every_row_an_action(part: MechanismPart, case: TrialCase, available: np.ndarray) -> None:
    if np.asarray(case.problem.reveals).sum(axis=0).max() > 1:
        return  # an action that is left may have lost a feature with another one that reveals it too
    had = np.asarray(case.problem.readable(case.train.available)).any(axis=1)
    has = np.asarray(case.problem.readable(jnp.asarray(available))).any(axis=1)
    for row in np.flatnonzero(had & ~has)[:1]:
        raise AssertionError(f"{part.name}: row {row} lost all that it had; a row keeps at least one action")
