"""Any registered restorer or predictor that is stored can be saved, also those of others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import pytest
from jaxtyping import Array

from ascertain import InputError, Problem, StoreError, Table, load_model, predictors, restoration, save_model
from ascertain._core.training import Schedule
from ascertain.models._saving import SavedModel
from ascertain.restoration import PVAE, PVAERestorer, fit_hotdeck, fit_mean, restore
from ascertain.restoration import _miwae as miwae
from ascertain.restoration import _nearest as nearest
from ascertain.restoration import _pvae as pvae
from ascertain.restoration._observed_values import keep_observed_values
from tests.saved import KEY, PROBLEM, TRAIN, VALID, bits, forged, predictor, registered, reloaded, tiny

SMALL = pvae.Settings(latent=2, embedding=3, point_hidden=4, encoder=(5,), decoder=(4, 3), classifier=())
CODED = miwae.Settings(latent=2, hidden=(4,), codes=3)
PLAIN = PROBLEM.without_names()


@dataclass(frozen=True)
class ShiftSettings:
    shifts: tuple[float, ...] = (1.0,)
    schedule: Schedule = Schedule(batch_size=7)  # noqa: RUF009


class Shifted(eqx.Module):
    """Fills with the mean of a column, shifted; holds a validation row."""

    means: Array
    row: Table
    settings: ShiftSettings = eqx.field(static=True)

    def draw(self, key: Any, table: Table) -> Array:
        return jnp.zeros_like(table.x) + self.means[None] + self.settings.shifts[0]


class Stubborn:
    """Is not a PyTree."""

    def draw(self, key: Any, table: Table) -> Array:
        return jnp.zeros_like(table.x)


def fit_shifted(
    key: Any, problem: Problem, train: Table, valid: Table, *, settings: ShiftSettings
) -> Shifted:
    return Shifted(train.x.mean(axis=0), valid.take(jnp.arange(1)), settings)


class Constant(eqx.Module):
    logits: Array

    def __call__(self, x: Array, observed: Array) -> Array:
        return jnp.zeros((x.shape[0], 3)) + self.logits[None]


@pytest.fixture(autouse=True, scope="module")
def _parts() -> Iterator[None]:
    with registered():
        restoration.register("shifted", summary="", settings=ShiftSettings, keeps_rows=True)(fit_shifted)
        restoration.register("unstored", summary="", settings=ShiftSettings, stored=False)(fit_shifted)
        restoration.register("stubborn", summary="")(lambda *_, settings: Stubborn())
        predictors.register("constant", summary="")(
            lambda key, problem, *_, settings, weights: Constant(jnp.ones(problem.n_classes))
        )
        yield


def model(restorer: Any, name: str, settings: Any = None) -> SavedModel:
    return replace(tiny(), restorer=restorer, restorer_name=name, restorer_settings=settings)


def pvae_like(noise: bool) -> PVAERestorer:
    network = PVAE(4, 3, SMALL, key=KEY)
    return PVAERestorer(network, noise=jnp.arange(4.0) if noise else None)


def shifted(settings: ShiftSettings = ShiftSettings()) -> Shifted:
    return Shifted(jnp.arange(4.0), VALID.take(jnp.arange(1)), settings)


def miwae_like() -> miwae.MIWAERestorer:
    values = keep_observed_values(KEY, PLAIN, TRAIN)
    network = miwae.MIWAE(4, 3, CODED, key=KEY)
    return miwae.MIWAERestorer(network, jnp.zeros(4), jnp.ones(4), values, 3, CODED.codes)


@pytest.mark.filterwarnings("ignore:.*training rows")
@pytest.mark.parametrize(
    ("make", "name", "settings"),
    [
        (lambda: pvae_like(False), "pvae", SMALL),
        (lambda: pvae_like(True), "pvae_noise", SMALL),
        (lambda: fit_hotdeck(KEY, PLAIN, TRAIN), "hotdeck", None),
        (lambda: fit_mean(TRAIN), "mean", None),
        (lambda: fit_hotdeck(KEY, PLAIN, TRAIN, 3), "nearest", nearest.Settings(3)),
        (miwae_like, "miwae", CODED),
        (lambda: shifted(ShiftSettings((2.0,))), "shifted", ShiftSettings((2.0,))),
    ],
)
def test_a_restorer_draws_the_same_after_a_round_trip(
    tmp_path: Path, make: Callable[[], Any], name: str, settings: Any
) -> None:
    restorer = make()
    saved = model(restorer, name, settings)
    again = reloaded(tmp_path, saved)
    back: Any = again.restorer
    assert bits(back) == bits(restorer)
    drawn: list[Any] = [restore(jr.key(1), each, TRAIN).x for each in (back, restorer)]
    assert bits(drawn[0]) == bits(drawn[1])
    assert again.restorer_name == name
    assert again.restorer_settings == (settings or restoration.get(name).settings())
    assert again.contains_training_rows == (name in ("hotdeck", "nearest", "miwae", "shifted"))


def test_somebody_elses_predictor_can_be_saved(tmp_path: Path) -> None:
    own = Constant(jnp.arange(3.0))
    again = reloaded(tmp_path, tiny(predictor=own, predictor_name="constant", predictor_settings=None))
    assert bits(again.predictor) == bits(own)
    assert again.predictor_name == "constant"


def test_who_keeps_rows_is_named(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="9 training rows themselves, because the restorer hotdeck needs them"
    ):
        save_model(tmp_path, model(fit_hotdeck(KEY, PLAIN, TRAIN), "hotdeck"))


@pytest.mark.parametrize(
    ("make", "name", "settings", "complaint"),
    [
        (shifted, "", None, "say by restorer_name"),
        (shifted, "shiftd", None, "did you mean 'shifted'"),
        (shifted, "unstored", None, r"a Shifted cannot be saved as the restorer \(unstored\)"),
        (shifted, "iterative", None, r"cannot be saved as the restorer \(iterative\)"),
        (Stubborn, "stubborn", None, r"a Stubborn cannot be saved as the restorer .*only PyTrees"),
        (shifted, "shifted", SMALL, "settings are Settings, but shifted takes ShiftSettings"),
        (shifted, "shifted", ShiftSettings((3.0,)), "fitted restorer is not .* static fields differ"),
        (shifted, "mean", None, r"restorer\.row\S+ has no place"),
        (lambda: pvae_like(False), "pvae_noise", SMALL, r"restorer\.noise is missing"),
        (
            lambda: pvae_like(False).label_free(),
            "pvae",
            SMALL,
            "fitted restorer is not .* static fields differ",
        ),
        (
            lambda: fit_hotdeck(KEY, PLAIN, TRAIN, 3),
            "hotdeck",
            None,
            "fitted restorer is not .* static fields differ",
        ),
        (lambda: fit_hotdeck(KEY, PLAIN, VALID), "hotdeck", None, r"restorer\.donors\.\S+ is"),
        (
            lambda: fit_mean(TRAIN.with_cells(TRAIN.x + jnp.inf, TRAIN.available)),
            "mean",
            None,
            "restorer.means holds NaN or",
        ),
    ],
)
def test_a_restorer_is_saved_with_what_it_was_fitted_with_or_not_at_all(
    tmp_path: Path, make: Callable[[], Any], name: str, settings: Any, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        save_model(tmp_path, model(make(), name, settings))
    assert not list(tmp_path.iterdir())


def test_a_subclass_of_a_predictor_is_not_saved_as_its_base(tmp_path: Path) -> None:
    class Wrapped(type(predictor())):  # type: ignore[misc]
        pass

    with pytest.raises(InputError, match=r"fitted (method|predictor) is not .* static fields differ"):
        save_model(tmp_path, replace(tiny(predictor=Wrapped(predictor().network))))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda restorer: restorer.update(name="theirs"),
            "needs the restorer 'theirs'.*install the package tests",
        ),
        (lambda restorer: restorer["settings"].update(extra=1), r"settings\.extra"),
        (lambda restorer: restorer["settings"]["schedule"].update(batch_size=0.5), r"schedule\.batch_size"),
        (
            lambda restorer: restorer["settings"].update(shifts=[1.0] * 20_000),
            "has 20,... settings, more than",
        ),
        (lambda restorer: restorer.update(name="mean", settings={}), r"restorer\.row\S+ has no place"),
        (lambda restorer: restorer.update(name="iterative", settings={}), "does not hold what tiny can have"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*training rows")
def test_forged_restorers_are_refused(tmp_path: Path, change: Any, complaint: str) -> None:
    file = tmp_path / "m.safetensors"
    save_model(file, model(shifted(), "shifted"))
    file.write_bytes(forged(file, lambda raw: change(raw["restorer"])))
    with pytest.raises(StoreError, match=complaint):
        load_model(file)
