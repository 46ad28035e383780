"""The checks of restorers, mechanisms and datasets: ours pass, and broken ones are told what is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from ascertain import datasets, missingness, restoration
from ascertain.datasets import Dataset, cube
from ascertain.restoration import _ensemble as ensemble
from ascertain.restoration import _miwae as miwae
from ascertain.restoration import _mixture as mixture
from ascertain.restoration import _pvae as pvae
from ascertain.testing import check_dataset, check_mechanism, check_restorer

SHORT: dict[str, Any] = {
    "pvae": pvae.Settings(
        latent=2,
        embedding=2,
        point_hidden=4,
        encoder=(4,),
        decoder=(4,),
        classifier=(),
        schedule=replace(pvae.Settings().schedule, max_rounds=1, batches_per_round=2, stop_from=0),
    ),
    "miwae": miwae.Settings(
        latent=2,
        hidden=(4,),
        training_codes=2,
        codes=4,
        schedule=replace(miwae.Settings().schedule, max_rounds=1, batches_per_round=2),
    ),
}
SHORT["pvae_noise"] = SHORT["pvae"]
SHORT["ensemble"] = ensemble.Settings(members=("nearest", "hotdeck"))
SHORT["mixture"] = mixture.Settings(components=(1, 2), starts=1, wide_updates=2, updates=4)


def _some_slow(names: tuple[str, ...], slow: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


# Half a minute each, and they have tests of their own.
@pytest.mark.parametrize("name", _some_slow(restoration.names(), ("pvae", "pvae_noise", "miwae", "mixture")))
def test_our_restorers_keep_their_promises(name: str) -> None:
    check_restorer(name, settings=SHORT.get(name))


@pytest.mark.parametrize("name", _some_slow(missingness.names(), ("mar", "mnar_logistic", "mnar_self")))
def test_our_mechanisms_keep_their_promises(name: str) -> None:
    check_mechanism(name)


@pytest.mark.parametrize(
    "name",
    [
        name if name.startswith("cube") else pytest.param(name, marks=pytest.mark.needs("data"))
        for name in ("cube", "cube_nm", "cube_nuc", "heart_sites", "heart_disease", "actg175")
    ],
)
def test_our_datasets_keep_their_promises(name: str) -> None:
    check_dataset(name)


@pytest.fixture(autouse=True)
def _forget_what_tests_register() -> Iterator[None]:
    registries = [package._registry for package in (restoration, missingness, datasets)]
    stores = [next(v for v in vars(each).values() if hasattr(v, "_parts")) for each in registries]
    kept = [dict(store._parts) for store in stores]
    yield
    for store, parts in zip(stores, kept, strict=True):
        store._parts.clear()
        store._parts.update(parts)


class Constant(eqx.Module):
    value: Any

    def draw(self, key: Any, table: Any) -> Any:
        return jnp.broadcast_to(jnp.asarray(self.value), table.x.shape)


class LabelReader(Constant):
    def draw(self, key: Any, table: Any) -> Any:
        return table.y[:, None] + jnp.zeros_like(table.x)

    def label_free(self) -> "LabelReader":
        return self


class Greedy(Constant):
    def draw(self, key: Any, table: Any) -> Any:
        return jnp.broadcast_to(table.x.sum(axis=1, keepdims=True), table.x.shape)


def _returns(fitted: Any) -> Any:
    def fit(key: Any, problem: Any, train: Any, valid: Any, *, settings: Any) -> Any:
        return fitted(train) if callable(fitted) and not isinstance(fitted, eqx.Module) else fitted

    return fit


@dataclass
class Loose:
    size: int = 1


@pytest.mark.parametrize(
    ("fitted", "options", "says"),
    [
        (Constant(jnp.nan), {}, "draws are finite"),
        (Constant(0.0), {"label_free": True}, "has no method label_free"),
        (LabelReader(0.0), {}, "has a method label_free"),
        (LabelReader(0.0), {"label_free": True}, "still looks at labels"),
        (Greedy(0.0), {}, "cells that are not available"),
        (lambda train: _WithRows(train.x), {}, "keeps_rows=True"),
        (Constant(0.0), {"settings": Loose}, "frozen dataclass"),
        (lambda train: Constant(float(train.x[0, 0])), {}, "on_host=True"),
        (lambda train: object(), {"on_host": True}, "must have a method draw"),
    ],
)
def test_a_restorer_that_breaks_a_promise_is_told_which(fitted: Any, options: Any, says: str) -> None:
    fit = restoration.register("broken", summary="broken", **options)(_returns(fitted))
    with pytest.raises(AssertionError, match=says):
        check_restorer(fit)


class _WithRows(eqx.Module):
    rows: Any

    def draw(self, key: Any, table: Any) -> Any:
        return jnp.zeros_like(table.x)


class Hides:
    def __init__(self, mask: Any):
        self.mask = mask

    def sample(self, key: Any, table: Any) -> Any:
        return table.with_cells(table.x, self.mask(key, table.available))


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (lambda rate: lambda key, available: available & (rate < 0), r"at least one action|missing together"),
        (lambda rate: lambda key, available: jnp.ones_like(available), "cells appear|must hide more"),
        (lambda rate: lambda key, available: available.at[:, 0].set(False), "rate 0|goes missing together"),
        (lambda rate: lambda key, available: available & bool(rate < 2), "on_host=True"),
    ],
)
def test_a_mechanism_that_breaks_a_promise_is_told_which(mask: Any, says: str) -> None:
    @missingness.register("broken", summary="broken")
    def fit(key: Any, problem: Any, table: Any, rate: Any) -> Hides:
        return Hides(mask(rate))

    with pytest.raises(AssertionError, match=says):
        check_mechanism(fit)


def test_a_dataset_that_breaks_a_promise_is_told_which() -> None:
    rng = np.random.default_rng(0)

    @datasets.register("restless", summary="Other rows every time.")
    def restless() -> Dataset:
        seed = int(rng.integers(1000))
        original = cube(100)
        return replace(original, draw=lambda _: original.draw(seed))

    with pytest.raises(AssertionError, match=r"the same every time|does not occur"):
        check_dataset(restless)


def test_a_function_that_is_not_registered_is_refused() -> None:
    with pytest.raises(Exception, match=r"is not a registered restorer; decorate it with ascertain"):
        check_restorer(_returns(Constant(0.0)))
