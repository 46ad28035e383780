"""The promises of every restorer, and a function that checks them."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain.problem import Table
from ascertain.restoration import label_free, restore
from ascertain.restoration._registry import RestorerPart, find
from ascertain.testing._cases import (
    TRAIN_ROWS,
    VALID_ROWS,
    TrialCase,
    grouped,
    incomplete,
    with_other_unmeasured_values,
)

_ACTIONS = 5


def check_restorer(restorer: str | Callable[..., Any], *, settings: Any = None) -> None:
    """Raise an `AssertionError` that says which promise a restorer breaks, and how; else do nothing.

    Parameters
    ----------
    restorer
        The name of a registered restorer, or the function that `restoration.register` decorates.
    settings
        Its settings; by default its own. Shorten the training here: no promise depends on its length.

    Examples
    --------
    >>> from ascertain.testing import check_restorer
    >>> check_restorer("hotdeck")
    """
    part = find(restorer)
    _fit_takes_settings(part)
    settings = part.settings() if settings is None else settings
    for case in (incomplete(_ACTIONS), _with_groups_and_holes()):
        fitted = _fit(part, settings, case)
        _draws_are_numbers(part, fitted, case)
        _the_key_decides(part, fitted, case)
        _missing_values_do_not_matter(part, settings, fitted, case)
        _labels_matter_only_if_declared(part, fitted, case)
        if not part.on_host:
            _replicates_are_independent(part, settings, fitted, case)
            _rows_are_kept_only_if_declared(part, fitted)
    _settings_are_frozen(part, settings)


def _fit_takes_settings(part: RestorerPart) -> None:
    try:
        signature(part.fit).bind("key", "problem", "train", "valid", settings=None)
    except TypeError as error:
        wanted = "fit(key, problem, train, valid, *, settings)"
        raise AssertionError(f"{part.name}: fit must be called as {wanted}: {error}") from error


def _fit(part: RestorerPart, settings: Any, case: TrialCase) -> Any:
    fit = partial(part.fit, settings=settings)
    data = (case.key, case.problem, case.train, case.valid)
    try:
        fitted = fit(*data) if part.on_host else eqx.filter_jit(fit)(*data)
    except jax.errors.JAXTypeError as error:
        raise AssertionError(
            f"{part.name}: fit must be a pure function of arrays, so that it can be jitted and vmapped, or "
            f"be registered with on_host=True: {error}"
        ) from error
    assert hasattr(fitted, "draw"), f"{part.name}: what fit returns must have a method draw(key, table)"
    return fitted


def _draws_are_numbers(part: RestorerPart, fitted: Any, case: TrialCase) -> None:
    drawn = np.asarray(fitted.draw(jr.key(0), case.train))
    shape = case.train.x.shape
    assert drawn.shape == shape, f"{part.name}: draw must return an array of {shape}, not of {drawn.shape}"
    holes = ~np.asarray(case.train.available)
    for row, column in np.argwhere(holes & ~np.isfinite(drawn))[:1]:
        raise AssertionError(
            f"{part.name}: draws are finite, whatever a row lacks, but row {row}, feature {column} is "
            f"{drawn[row, column]}"
        )


def _missing_values_do_not_matter(part: RestorerPart, settings: Any, fitted: Any, case: TrialCase) -> None:
    """Check that the content of missing cells is not used."""
    other = with_other_unmeasured_values(case)
    again = restore(jr.key(0), _fit(part, settings, other), other.train)
    before = restore(jr.key(0), fitted, case.train)
    same = np.allclose(np.asarray(before.x), np.asarray(again.x), rtol=1e-5, atol=1e-5)
    assert same, f"{part.name}: values of cells that are not available change what is drawn"


def _the_key_decides(part: RestorerPart, fitted: Any, case: TrialCase) -> None:
    one, other = (np.asarray(restore(jr.key(1), fitted, case.train).x) for _ in range(2))
    assert np.array_equal(one, other), f"{part.name}: one key must give one draw; take all randomness from it"


def _labels_matter_only_if_declared(part: RestorerPart, fitted: Any, case: TrialCase) -> None:
    declared, able = part.label_free, hasattr(fitted, "label_free")
    assert declared == able, (
        f"{part.name} is registered with label_free={declared}, but what fit returns "
        + ("has no method label_free()" if declared else "has a method label_free()")
    )
    if declared:
        free = label_free(fitted)
        relabelled = eqx.tree_at(lambda t: t.y, case.train, (case.train.y + 1) % case.problem.n_classes)
        one, other = (np.asarray(restore(jr.key(2), free, table).x) for table in (case.train, relabelled))
        assert np.array_equal(one, other), f"{part.name}: what label_free() returns still looks at labels"


def _replicates_are_independent(part: RestorerPart, settings: Any, fitted: Any, case: TrialCase) -> None:
    """Check that fitting and drawing can be vmapped, with the same result for a replicate as alone."""

    def restored(key: Any, train: Table) -> Any:
        own = part.fit(key, case.problem, train, case.valid, settings=settings)
        return restore(jr.key(0), own, train).x

    tables = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), case.train)
    keys = jnp.stack([case.key, jr.key(9)])
    both = np.asarray(jax.jit(jax.vmap(restored))(keys, tables))
    alone = np.asarray(restore(jr.key(0), fitted, case.train).x)
    same = np.allclose(both[0], alone, rtol=1e-3, atol=1e-3)  # batched sums round differently
    assert same, f"{part.name}: a replicate's draws depend on the others under vmap"


def _rows_are_kept_only_if_declared(part: RestorerPart, fitted: Any) -> None:
    sizes = {size for leaf in jax.tree.leaves(fitted) for size in np.shape(leaf)}
    keeps = bool(sizes & {TRAIN_ROWS, VALID_ROWS})
    assert part.keeps_rows or not keeps, (
        f"{part.name} holds something for each training row; register it with keeps_rows=True, so that "
        "people are told before they share a model"
    )


def _settings_are_frozen(part: RestorerPart, settings: Any) -> None:
    try:
        hash(settings)
    except TypeError as error:
        raise AssertionError(
            f"{part.name}: settings must be a frozen dataclass of hashable values"
        ) from error


def _with_groups_and_holes() -> TrialCase:
    """A grouped case whose rows lack half of the cells, and all of them the last feature."""
    case, rng = grouped(_ACTIONS), np.random.default_rng(5)

    def holed(table: Table) -> Table:
        available = jnp.asarray(rng.random(table.x.shape) < 0.5).at[:, -1].set(False)
        return table.with_cells(table.x, available)

    return case._replace(train=holed(case.train), valid=holed(case.valid))
