"""Saved models come back to the last bit, or are not saved."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from ascertain import AFABENCH, PAPER, InputError, Problem
from ascertain.acquisition import acquire
from ascertain.methods import _jafa as jafa
from ascertain.methods import _registry as registry
from ascertain.models._saving import SavedModel, hash_table, load_model, save_model
from ascertain.predictors._masked_mlp import Settings, SklearnPredictor
from ascertain.registry import NoSettings
from tests.saved import (
    KEY,
    NAMES,
    PROBLEM,
    TRAIN,
    VALID,
    Layer,
    Rows,
    Tiny,
    TinySettings,
    arrays,
    bits,
    fit_tiny,
    predictor,
    registered,
    reloaded,
    scores,
    structure,
    tiny,
    unpacked,
)


@pytest.fixture(autouse=True, scope="module")
def _methods() -> Iterator[None]:
    with registered():
        yield


# Round trips


def test_scores_and_predictions_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    model = tiny()
    again = reloaded(tmp_path, model)
    assert scores(again).tobytes() == scores(model).tobytes()
    predict = jax.jit(lambda predictor: predictor(TRAIN.x, TRAIN.available))
    assert bits(predict(again.predictor)) == bits(predict(model.predictor))
    assert bits(again.policy) == bits(model.policy)
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_file_or_a_folder_may_be_named(tmp_path: Path) -> None:
    model = tiny()
    save_model(str(tmp_path / "new" / "mine.safetensors"), model)
    save_model(tmp_path / "new" / "folder", model)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"mine.safetensors", "folder"}
    for name in ("mine.safetensors", "folder", "folder/model.safetensors"):
        assert bits(load_model(tmp_path / "new" / name).policy) == bits(model.policy)


def test_everything_else_comes_back_too(tmp_path: Path) -> None:
    preprocessing = {"mean": [0.1, 1e-300, None], "note": "straße", "nested": {"deep": [[True]]}}
    model = replace(
        tiny(state="sm", protocol=AFABENCH, preprocessing=preprocessing),
        package_version="0.0.7",
        created=datetime.now(UTC) - timedelta(days=1),
    )
    again = reloaded(tmp_path, model)
    for name in (
        *("method", "settings", "state", "protocol", "train_rows", "completions", "valid_rows"),
        *("data_hash", "seed", "predictor_name", "predictor_settings", "restorer_name", "restorer_settings"),
    ):
        assert getattr(again, name) == getattr(model, name)
    assert again.preprocessing == preprocessing
    assert (again.package_version, again.created) == (model.package_version, model.created)
    assert eqx.tree_equal(again.problem, PROBLEM)
    assert again.problem.action_names == NAMES
    assert structure(again.predictor) == structure(model.predictor)
    assert not again.contains_training_rows


def test_a_loaded_model_can_be_saved_again(tmp_path: Path) -> None:
    reloaded(tmp_path / "again", reloaded(tmp_path / "once", tiny()))
    once, again = (tmp_path / name / "model.safetensors" for name in ("once", "again"))
    assert once.read_bytes() == again.read_bytes()


def test_saving_over_a_model_gives_the_new_one(tmp_path: Path) -> None:
    save_model(tmp_path, tiny())
    model = tiny(TinySettings(rate=0.5), predictor=None)
    assert scores(reloaded(tmp_path, model)).tobytes() == scores(model).tobytes()


def test_a_custom_protocol_and_no_predictor(tmp_path: Path) -> None:
    protocol = replace(PAPER, name="mine", aaco_groups="one_step")
    again = reloaded(tmp_path, tiny(predictor=None, protocol=protocol))
    assert again.protocol == protocol
    assert again.predictor is None


@pytest.mark.parametrize("hidden", [(), (2,), (3, 3, 3)])
def test_a_predictor_of_any_depth(tmp_path: Path, hidden: tuple[int, ...]) -> None:
    model = tiny(predictor=predictor(hidden), predictor_settings=Settings(hidden=hidden))
    assert bits(reloaded(tmp_path, model).predictor) == bits(model.predictor)


@pytest.mark.parametrize(
    "settings",
    [
        TinySettings(rate=1),  # an int where a float is meant
        TinySettings(layers=(Layer(7),), pairs=(), patience=3, best=Layer(2, "tanh"), flag=True),
        TinySettings(either=1.0),
        TinySettings(either="1", pairs=(("\u2028\x00'\"", -1), ("", 10**12))),
        TinySettings(rate=5e-324, scales={"a": 1.7976931348623157e308, "b": -0.0}),
    ],
)
def test_settings_of_many_types_come_back(tmp_path: Path, settings: TinySettings) -> None:
    again = reloaded(tmp_path, tiny(settings)).settings
    assert again == settings
    assert type(again.either) is type(settings.either)


def test_a_policy_fitted_in_jit_and_without_names(tmp_path: Path) -> None:
    # There the factor becomes an array, and the problem inside the policy has no names.
    fit = jax.jit(lambda problem: arrays(fit_tiny_on(problem)))
    policy = eqx.combine(fit(PROBLEM.without_names()), fit_tiny_on(PROBLEM.without_names()))
    model = replace(tiny(), policy=policy)
    again = reloaded(tmp_path, model)
    assert scores(again).tobytes() == scores(model).tobytes()
    assert again.problem.action_names == NAMES


def fit_tiny_on(problem: Problem) -> Tiny:
    given: dict[str, Any] = {"predictor": predictor(), "pretrained": None, "settings": TinySettings()}
    return fit_tiny(KEY, problem, TRAIN, VALID, **given, state="s", protocol=PAPER)


def test_a_method_that_must_be_pretrained(tmp_path: Path) -> None:
    model = replace(rows_model(), method="pretrained", policy=Rows(VALID.take(jnp.arange(2))))
    assert bits(reloaded(tmp_path, model).policy) == bits(model.policy)


def test_the_hash_tells_tables_apart() -> None:
    x, y, available = (np.asarray(leaf) for leaf in (TRAIN.x, TRAIN.y, TRAIN.available))

    def hashed(x: np.ndarray, y: np.ndarray, available: np.ndarray) -> str:
        leaves: Any = lambda table: (table.x, table.y, table.available)  # noqa: E731
        return hash_table(eqx.tree_at(leaves, TRAIN, (x, y, available)))

    assert hashed(x.copy(), y, available) == hash_table(TRAIN)
    one_cell = available ^ (np.arange(36).reshape(9, 4) == 5)
    others = [
        hashed(x[::-1], y, available),
        hashed(x[:8], y[:8], available[:8]),
        hashed(x, (y + 1) % 3, available),
        hashed(x, y, one_cell),
        hashed(x.reshape(4, 9), y, available),
        hashed(x.view(np.int32), y, available),
    ]
    assert len({hash_table(TRAIN), *others}) == 1 + len(others)


# The methods that we bring


def as_if_fitted(name: str, state: registry.State, settings: Any, completions: int = 1) -> SavedModel:
    """Give a policy of the right structure with any numbers, which takes no training."""
    rng = np.random.default_rng(1)

    def any_numbers(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jnp.asarray(np.asarray(rng.normal(size=leaf.shape) * 3, leaf.dtype))

    method = registry.get(name)
    fixed: dict[str, Any] = {"settings": settings, "state": state, "protocol": AFABENCH}
    policy = eqx.filter_eval_shape(
        lambda *tables: method.fit(KEY, *tables, predictor=predictor(), pretrained=None, **fixed),
        PROBLEM.without_names(),  # as `methods.fit` does
        TRAIN.completed(jnp.zeros((completions, 9, 4))),
        VALID,
    )
    return SavedModel(
        method=name,
        policy=jax.tree.map(any_numbers, policy),
        problem=PROBLEM,
        train_rows=9,
        completions=completions,
        valid_rows=5,
        data_hash=hash_table(TRAIN),
        seed=3,
        predictor=predictor(),
        predictor_settings=Settings(hidden=(5, 4)),
        **fixed,
    )


def _slow(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def some_settings(name: str) -> Any:
    method = registry.get(name)
    return method.completed(method.settings(), PROBLEM, AFABENCH)


@pytest.mark.filterwarnings("ignore:.*training rows")
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("aaco", "s"),
        _slow("dime", "s"),
        _slow("gdfs", "s"),
        _slow("jafa", "s"),
        _slow("odin", "s"),
        _slow("odin", "sm"),
        _slow("ol", "s"),
        _slow("ol", "sm"),
        ("random", "s"),
        ("sequential", "s"),
        ("static", "s"),
        ("stop", "s"),
    ],
)
def test_every_method_can_be_saved(tmp_path: Path, name: str, state: registry.State) -> None:
    model = as_if_fitted(name, state, some_settings(name))
    again = reloaded(tmp_path, model)
    assert bits(again.policy) == bits(model.policy)
    assert type(again.policy) is type(model.policy)
    assert again.contains_training_rows == (name == "aaco")


@pytest.mark.filterwarnings("ignore:.*training rows")
@pytest.mark.parametrize("name", ["aaco", "static", _slow("planner"), _slow("odin")])
def test_policies_of_several_completions_can_be_saved(tmp_path: Path, name: str) -> None:
    model = as_if_fitted(name, "s", some_settings(name), completions=3)
    again = reloaded(tmp_path, model)
    assert (again.train_rows, again.completions) == (9, 3)
    assert bits(again.policy) == bits(model.policy)
    assert structure(again.policy) == structure(model.policy)
    if name == "aaco":
        kept = again.policy.table  # type: ignore[attr-defined]
        assert (kept.completions, kept.n_instances, len(kept.y)) == (3, 9, 27)


@pytest.fixture(scope="module")
def some_jafa() -> SavedModel:
    settings = jafa.Settings(frames_per_batch=4, slots=4, hidden=(4,), embedding=3, process_steps=2)
    return as_if_fitted("jafa", "sm", settings)


def test_jafa_acquires_the_same_after_a_round_trip(tmp_path: Path, some_jafa: SavedModel) -> None:
    again = reloaded(tmp_path, some_jafa)
    assert scores(again).tobytes() == scores(some_jafa).tobytes()
    run = eqx.filter_jit(lambda policy: acquire(KEY, policy, PROBLEM, VALID, AFABENCH, 3))
    assert bits(run(again.policy)) == bits(run(some_jafa.policy))
    assert structure(again.policy) == structure(some_jafa.policy)


@pytest.mark.parametrize("name", ["settings", "state"])
def test_jafa_is_saved_with_what_it_was_fitted_with_or_not_at_all(
    tmp_path: Path, some_jafa: SavedModel, name: str
) -> None:
    other: Any = {"settings": replace(some_jafa.settings, embedding=2), "state": "s"}[name]
    with pytest.raises(InputError, match=r"not what jafa gives with .*policy\.\S+ is float32"):
        save_model(tmp_path, replace(some_jafa, **{name: other}))
    assert not list(tmp_path.iterdir())


# Models that hold their rows


def rows_model() -> SavedModel:
    return replace(tiny(), method="rows", policy=Rows(TRAIN), settings=NoSettings())


def test_saving_training_rows_warns_and_is_on_record(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="will hold the 9 training rows themselves, because the method rows"):
        save_model(tmp_path, rows_model())
    assert unpacked(tmp_path / "model.safetensors")[0]["contains_training_rows"] is True
    again = load_model(tmp_path)
    assert again.contains_training_rows
    assert bits(again.policy) == bits(Rows(TRAIN))


def test_nothing_is_written_when_warnings_are_errors(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="training rows"):
            save_model(tmp_path / "rows", rows_model())
        save_model(tmp_path / "tiny", tiny())  # which holds none, does not warn
    assert not (tmp_path / "rows").exists()


# What cannot be saved


@dataclass(frozen=True)
class Unwritable:
    function: Callable[[float], float] = abs


@dataclass(frozen=True)
class Wider(Layer):
    more: int = 1


def test_settings_that_json_cannot_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry._METHODS, "_parts", dict(registry._METHODS._parts))
    registry.register("unwritable", summary="", settings=Unwritable)(lambda *_, **__: Rows(TRAIN))
    with pytest.raises(InputError, match="settings of unwritable cannot be written as JSON"):
        save_model(tmp_path, replace(rows_model(), method="unwritable", settings=Unwritable()))
    with pytest.raises(InputError, match="cannot be written as JSON"):
        save_model(tmp_path, tiny(TinySettings(patience="much")))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="settings are Layer, but tiny takes TinySettings"):
        save_model(tmp_path, replace(tiny(), settings=Layer()))
    with pytest.raises(InputError, match="settings would come back as"):
        save_model(tmp_path, tiny(TinySettings(best=Wider())))


@pytest.mark.parametrize(
    ("preprocessing", "complaint"),
    [
        ({"mean": float("nan")}, r"preprocessing\.mean.*finite"),
        ({"mean": np.float32(1)}, "preprocessing"),
        ({"mean": (1, 2)}, r"preprocessing\.mean"),
        ({"mean": np.ones(2)}, r"preprocessing\.mean"),
        ({"\ud800": 1}, "surrogates not allowed|preprocessing would come back"),
        ({"many": 10**5000}, "cannot be saved as it is: .*digits"),
    ],
)
def test_preprocessing_must_be_plain_json(tmp_path: Path, preprocessing: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        save_model(tmp_path, tiny(preprocessing=preprocessing))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"method": "tine"}, "did you mean 'tiny'"),
        ({"seed": -1}, "seed"),
        ({"train_rows": 0}, "train_rows"),
        ({"completions": 0}, "completions must be a whole number of at least 1, got 0"),
        ({"completions": 101}, "completions"),
        ({"completions": 2}, r"policy\.parts.* is int32\(9,\) instead of int32\(18,\)"),
        ({"train_rows": 8}, r"policy\.parts.* is int32\(9,\) instead of int32\(8,\)"),
        ({"data_hash": "unknown"}, "data_hash"),
        ({"created": datetime(2026, 1, 1)}, "created"),
        ({"predictor": None}, r"policy\.predictor\S* has no place|predictor\S* has no place"),
        ({"protocol": AFABENCH}, r"policy\.parts"),
        ({"settings": TinySettings(patience=1)}, r"fitted method is not .* static fields differ"),
        ({"settings": TinySettings(layers=(Layer(),) * 400)}, "tiny has 8.. settings, more than the 500"),
        ({"predictor_settings": Settings(hidden=(5, 3))}, r"predictor\S+ is float32\(5, 4\) instead of"),
        ({"predictor_settings": Layer()}, "settings are Layer, but mlp takes Settings"),
        ({"predictor_name": "mpl"}, "did you mean 'mlp'"),
        ({"package_version": "new"}, "package_version"),
        ({"policy": Rows(TRAIN)}, r"policy\.\S+ is missing"),
        ({"problem": Problem(np.eye(3), [1, 1, 1], 1, 3)}, r"policy\.\S+ is"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        save_model(tmp_path, replace(tiny(), **changes))
    assert not list(tmp_path.iterdir())


def test_a_state_variant_must_be_one_of_the_methods(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows has the state variant 's', not 'sm'"):
        save_model(tmp_path, replace(rows_model(), state="sm"))


def test_only_our_predictor_is_saved(tmp_path: Path) -> None:
    other = SklearnPredictor(HistGradientBoostingClassifier(), 3)
    with pytest.raises(InputError, match=r"a SklearnPredictor cannot be saved as the predictor \(mlp\)"):
        save_model(tmp_path, replace(tiny(), predictor=other))


def test_stacked_models_are_saved_one_by_one(tmp_path: Path) -> None:
    model = tiny()
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), model.predictor)
    with pytest.raises(InputError, match=r"predictor\.network\.layers\[0\]\.weight is float32\(2, 8, 5\)"):
        save_model(tmp_path, replace(model, predictor=stacked))
    problems = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), PROBLEM)
    with pytest.raises(InputError, match=r"reveals has shape \(2, 3, 4\)"):
        save_model(tmp_path, replace(model, problem=problems))


def test_a_problem_of_other_types_is_refused(tmp_path: Path) -> None:
    whole = eqx.tree_at(lambda problem: problem.budget, PROBLEM, jnp.asarray(1))  # an integer
    with pytest.raises(InputError, match="problem would not come back"):
        save_model(tmp_path, replace(tiny(), problem=whole))


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_diverged_is_not_saved(tmp_path: Path, value: float) -> None:
    model = tiny()
    worse = eqx.tree_at(lambda p: p.weights[1], model.policy, jnp.full((3, 3), value))
    with pytest.raises(InputError, match=r"policy\.weights\[1\] holds NaN or infinite numbers: .*diverge"):
        save_model(tmp_path, replace(model, policy=worse))
    never = eqx.tree_at(lambda p: p.threshold, model.policy, jnp.asarray(jnp.inf))  # which may be meant
    assert np.isinf(reloaded(tmp_path, replace(model, policy=never)).policy.threshold)  # type: ignore[attr-defined]


def test_a_random_key_is_not_saved(tmp_path: Path) -> None:
    model = tiny()
    keyed = eqx.tree_at(lambda p: p.count, model.policy, KEY)
    with pytest.raises(InputError, match=r"policy\.count is a random key"):
        save_model(tmp_path, replace(model, policy=keyed))
