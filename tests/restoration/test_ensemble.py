"""The ensemble of restorers, and several completions; each member of these ensembles signs its draws."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain import InputError, Problem, Table, restoration
from ascertain._core.effort import Effort, effort
from ascertain.restoration import Ensemble, draws, fit_ensemble, fit_hotdeck, restore
from ascertain.restoration._ensemble import Settings
from tests.saved import registered

ALPHA = 1e-4
PROBLEM = Problem(np.eye(4), np.ones(4), budget=2, n_classes=3)


def incomplete(seed: int, n: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table(rng.normal(size=(n, 4)), np.arange(n) % 3, rng.random((n, 4)) < 0.6, n_classes=3)


TABLE = incomplete(0, 40)


class Signed(eqx.Module):
    """Draws uniform numbers between its number and the next; labels add a hundred."""

    number: int = eqx.field(static=True)
    see_label: bool = eqx.field(static=True, default=True)

    def draw(self, key: Any, table: Table) -> Any:
        labels = 100.0 * table.y[:, None] if self.see_label else 0.0
        return self.number + jr.uniform(key, table.x.shape) + labels

    def label_free(self) -> "Signed":
        return Signed(self.number, see_label=False)


class Lasting(eqx.Module):
    """Remembers how long it was trained for."""

    updates: Any

    def draw(self, key: Any, table: Table) -> Any:
        return jnp.zeros_like(table.x) + self.updates

    def label_free(self) -> "Lasting":
        return self


@dataclass(frozen=True)
class LastingSettings:
    updates: int = 99

    def shortened(self, effort: Effort, n_rows: int) -> "LastingSettings":
        return replace(self, updates=effort.restorer_updates + n_rows)


@pytest.fixture(autouse=True, scope="module")
def _parts() -> Iterator[None]:
    with registered():
        restoration.register("lasting", summary="", settings=LastingSettings, label_free=True)(
            lambda *_, settings: Lasting(jnp.asarray(settings.updates))
        )
        restoration.register("labelled", summary="")(lambda *_, settings: Signed(0))
        yield


def test_every_row_comes_from_a_member_chosen_at_random() -> None:
    ensemble = Ensemble((Signed(0), Signed(1), Signed(2))).label_free()
    drawn = np.asarray(ensemble.draw(jr.key(0), incomplete(1, 3000)))
    member = np.floor(drawn).astype(int)
    assert np.all(member == member[:, :1])  # rows are not mixed
    assert scipy.stats.chisquare(np.bincount(member[:, 0], minlength=3)).pvalue > ALPHA


@pytest.mark.parametrize("n", [2, 3, 7])
def test_completions_come_from_the_members_in_turn(n: int) -> None:
    ensemble = Ensemble((Signed(0), Signed(1), Signed(2))).label_free()
    drawn = np.asarray(jax.jit(lambda key: draws(key, ensemble, TABLE, n))(jr.key(0)))
    assert drawn.shape == (n, 40, 4)
    for number in range(n):
        assert np.all(np.floor(drawn[number]) == number % 3)
    assert len(np.unique(drawn)) > 0.99 * drawn.size  # none is a copy of another


def test_the_label_free_variant_has_label_free_members() -> None:
    ensemble = Ensemble((Signed(0), Signed(1)))
    labelled = np.asarray(ensemble.draws(jr.key(0), TABLE, 4))
    assert np.all(labelled // 100 == np.asarray(TABLE.y)[None, :, None])
    assert np.all(np.asarray(ensemble.label_free().draws(jr.key(0), TABLE, 4)) < 2)


@pytest.mark.parametrize(
    "restorer", [fit_hotdeck(jr.key(0), PROBLEM, TABLE), Ensemble((Signed(0), Signed(1)))]
)
def test_one_completion_is_what_restore_draws(restorer: Any) -> None:
    (drawn,) = draws(jr.key(3), restorer, TABLE, 1)
    filled = jnp.where(TABLE.available, TABLE.x, drawn)
    np.testing.assert_array_equal(filled, restore(jr.key(3), restorer, TABLE).x)


def test_several_completions_are_draws_with_keys_of_their_own() -> None:
    deck = fit_hotdeck(jr.key(0), PROBLEM, TABLE)
    found = draws(jr.key(4), deck, TABLE, 3)
    expected = [deck.draw(key, TABLE) for key in jr.split(jr.key(4), 3)]
    np.testing.assert_array_equal(found, jnp.stack(expected))


def test_a_restorer_on_the_host_is_asked_several_times() -> None:
    class OnHost:
        def draw(self, key: Any, table: Table) -> Any:
            return np.random.default_rng(int(jr.randint(key, (), 0, 2**30))).random(table.x.shape)

    found = np.asarray(draws(jr.key(5), OnHost(), TABLE, 2))
    assert found.shape == (2, 40, 4)
    assert np.all(found[0] != found[1])


def test_members_are_fitted_with_their_own_settings_and_effort() -> None:
    settings = Settings(members=("lasting", "hotdeck"))
    short = settings.shortened(effort("low"), 7)
    for own, updates in ((settings, 99), (short, effort("low").restorer_updates + 40)):
        ensemble = fit_ensemble(jr.key(0), PROBLEM, TABLE, TABLE, settings=own)
        assert isinstance(ensemble.members[0], Lasting)
        assert int(ensemble.members[0].updates) == updates


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ((), "at least one member"),
        (("hotdeck", "hot_dek"), "no restorer is called 'hot_dek'"),
        (("ensemble",), "is the ensemble itself"),
        (("knn",), "runs outside compiled programs"),
        (("labelled",), "cannot draw without the label, which an ensemble needs"),
    ],
)
def test_what_cannot_be_a_member_is_refused(members: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit_ensemble(jr.key(0), PROBLEM, TABLE, TABLE, settings=Settings(members=members))
