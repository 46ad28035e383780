"""Methods by name: registering them, finding them, and telling who breaks a promise."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import PAPER, InputError, Problem, Table, methods
from ascertain.methods import _registry as registry
from ascertain.methods import register
from ascertain.models._saving import SavedModel, load_model
from ascertain.policy import Policy
from ascertain.testing import check_method, method_checks
from ascertain.testing._checks import OF_FITTING, OF_POLICIES
from ascertain.testing._trial import Trial

PROBLEM = Problem(np.eye(3), [3, 1, 2], budget=3, n_classes=2)
TABLE = Table(np.arange(12.0).reshape(4, 3), [0, 0, 1, 1])

# What a user writes, in one file.
CHEAPEST = '''
"""The cheapest action first."""

import jax.numpy as jnp

from ascertain import Policy, Problem
from ascertain.methods import register


class Cheapest(Policy):
    problem: Problem

    def __call__(self, x, observed, acquired, available, *, key):
        scores = -self.problem.prices(acquired)
        return jnp.concatenate([jnp.full((len(x), 1), -jnp.inf), scores], axis=1)


@register("cheapest", summary="The cheapest action first.")
def fit(key, problem, train_table, valid_table, **options):
    return Cheapest(problem)
'''


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards what a test registers."""
    methods.names()  # so that our own are loaded already
    monkeypatch.setattr(registry._METHODS, "_parts", dict(registry._METHODS._parts))


# Registering.


def fit_nothing(key: Array, problem: Problem, train_table: Table, valid_table: Table, **_: Any) -> Policy:
    raise NotImplementedError


def test_the_decorator_leaves_the_function_alone_and_notes_all_about_it() -> None:
    def fit(*_: Any, **__: Any) -> Policy:
        raise NotImplementedError

    def pretrain(*_: Any, **__: Any) -> None:
        raise NotImplementedError

    @dataclass(frozen=True)
    class Settings:
        size: int = 3

    add = register(
        "mine", summary="Mine.", settings=Settings, pretrain=pretrain, states=("s", "sm"), keeps_rows=True
    )
    assert add(fit) is fit
    found = methods.get("mine")
    assert found.fit is fit
    assert found.summary == "Mine."
    assert found.settings() == Settings()
    assert found.label == found.name == "mine"
    assert found.pretrain is pretrain
    assert found.states == ("s", "sm")
    assert found.keeps_rows
    assert "mine" in methods.names()


def test_what_is_not_said_is_as_plain_as_can_be() -> None:
    register("mine", summary="Mine.")(fit_nothing)
    found = methods.get("mine")
    assert found.settings() == methods.NoSettings()
    assert found.states == ("s",)
    assert found.pretrain is None
    assert not found.keeps_rows


def test_settings_may_depend_on_the_problem() -> None:
    @dataclass(frozen=True)
    class Settings:
        size: int = 0

        def completed(self, problem: Problem, protocol: Any) -> "Settings":
            return replace(self, size=problem.n_actions + len(protocol.name))

    register("mine", summary="Mine.", settings=Settings)(fit_nothing)
    mine, stop = methods.get("mine"), methods.get("stop")
    assert mine.completed(mine.settings(), PROBLEM, PAPER) == Settings(size=3 + len("paper"))
    assert stop.completed(stop.settings(), PROBLEM, PAPER) == methods.NoSettings()


def test_a_name_is_taken_once() -> None:
    register("mine", summary="Mine.")(fit_nothing)
    register("mine", summary="Again.")(fit_nothing)  # as when a module is loaded anew
    assert methods.get("mine").summary == "Again."

    def another(*_: Any, **__: Any) -> Policy:
        raise NotImplementedError

    with pytest.raises(InputError, match=r"method 'mine' is already registered by .*test_registry"):
        register("mine", summary="Another.")(another)
    with pytest.raises(InputError, match=r"method 'jafa' is already registered by ascertain\.methods\._jafa"):
        register("jafa", summary="Another.")(another)
    assert methods.get("mine").fit is fit_nothing


# Finding.


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("jaffa", "did you mean 'jafa'?"),
        ("radom", "did you mean 'random'?"),
        ("zzz", "there are 'planner', 'dime'"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        methods.get(name)
    assert f"no method is called {name!r}; {hint}" in str(caught.value)


def test_names_are_in_the_order_of_the_documentation_and_those_of_others_follow() -> None:
    register("another", summary="Another.")(fit_nothing)
    found = methods.names()
    greedy = ("dime", "gdfs", "eddi", "sefa")
    learners = ("jafa", "ol", "odin", "odin_mb", "cwcf")
    fixed = ("static", "permutation", "concrete", "random", "sequential", "stop")
    assert found == ("planner", *greedy, "aaco", "aaco_nn", *learners, *fixed, "another")
    assert all(methods.get(name).name == name and methods.get(name).summary for name in found)
    assert {name for name in found if methods.get(name).keeps_rows} == {"aaco"}
    two = {name for name in found if methods.get(name).states == ("s", "sm")}
    assert two == {"planner", *learners}


def test_states_are_checked() -> None:
    with pytest.raises(InputError, match=r"gdfs has the state variant 's', not 'sm'"):
        methods.fit("gdfs", jr.key(0), PROBLEM, TABLE, TABLE, state="sm")
    with pytest.raises(InputError, match=r"jafa has the state variant 's' and 'sm', not 'm'"):
        methods.get("jafa").check_state("m")
    with pytest.raises(InputError, match=r"stop has the state variant 's', not 'sm'"):
        check_method("stop", state="sm")


# A user's own method.


def test_a_method_is_one_file_and_one_decorator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cheapest_in_a_file.py").write_text(CHEAPEST)
    monkeypatch.syspath_prepend(tmp_path)
    assert "cheapest" not in methods.names()
    module = __import__("cheapest_in_a_file")
    monkeypatch.delitem(sys.modules, "cheapest_in_a_file")
    assert "cheapest" in methods.names()
    policy = methods.fit("cheapest", jr.key(0), PROBLEM, TABLE, TABLE)
    nothing = jnp.zeros((1, 3), bool)
    scores = policy(TABLE.x[:1], nothing, nothing, ~nothing, key=jr.key(1))
    assert scores.tolist() == [[-np.inf, -3, -1, -2]]
    check_method("cheapest")
    check_method(module.fit, protocol=PAPER)


def test_an_installed_package_makes_its_methods_known_by_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cheapest_by_entry.py").write_text(CHEAPEST)
    info = tmp_path / "frugal-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: frugal\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ascertain.methods]\ncheapest = cheapest_by_entry\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry._METHODS, "_loaded", False)
    try:
        assert "cheapest" in methods.names()
        assert methods.get("cheapest").fit.__module__ == "cheapest_by_entry"
    finally:
        sys.modules.pop("cheapest_by_entry", None)


def test_a_plugin_that_fails_is_named_and_the_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_by_entry.py").write_text("import a_module_that_is_not_there\n")
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ascertain.methods]\nbroken = broken_by_entry\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry._METHODS, "_loaded", False)
    with pytest.warns(UserWarning, match="the methods of broken could not be loaded: ModuleNotFoundError"):
        assert "gdfs" in methods.names()


def test_state_variants_are_checked() -> None:
    with pytest.raises(InputError, match="state variants are 's' and 'sm'"):
        methods.register("odd", summary="", states=())(fit_nothing)


def test_what_is_not_registered_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="fit_nothing is not a registered method; decorate it with"):
        check_method(fit_nothing)
    with pytest.raises(InputError, match="did you mean 'stop'"):
        check_method("stopp")


# Broken promises: each check can fail, and says what is wrong.


class Toy(Policy):
    """Scores by a linear function of what is observed, unless something is wrong with it."""

    weights: Array
    extra: Any
    wrong: str

    def __call__(self, x: Array, observed: Array, acquired: Array, available: Array, *, key: Array) -> Array:
        scores = jnp.where(observed, x, 0.0) @ self.weights
        stop = jnp.full((len(x), 1), -jnp.inf)
        match self.wrong:
            case "forgets to stop":
                return scores
            case "NaN":
                scores = scores / observed.sum(axis=1, keepdims=True)
            case "infinite":
                scores = jnp.where(acquired, jnp.inf, scores)
            case "sees availability":
                scores = scores - available
            case "sees hidden values":
                scores = scores + x[:, :1]
        return jnp.concatenate([stop, scores], axis=1)


@jax.custom_batching.custom_vmap
def mixed(weights: Array) -> Array:
    return weights


@mixed.def_vmap
def _mix(size: int, batched: list[bool], weights: Array) -> tuple[Array, bool]:
    del size, batched
    return weights - weights.mean(axis=0, keepdims=True), True


def toy(wrong: str = "", **options: Any) -> Callable[..., Policy]:
    """Register a method with this flaw."""

    def fit(
        key: Array, problem: Problem, train_table: Table, valid_table: Table, *, settings: Any, **_: Any
    ) -> Any:
        shape = problem.n_features, problem.n_actions
        weights, extra = jr.normal(key, shape), None
        match wrong:
            case "looks at values":
                weights = weights * (2.0 if float(problem.budget) > 2 else 1.0)
            case "NaN in barren rows":
                weights = weights + (train_table.x.sum(axis=1) / train_table.available.sum(axis=1)).mean()
            case "looks into holes":
                weights = weights + train_table.x.mean()
            case "draws by NumPy":
                weights = weights + np.random.default_rng().normal(size=shape).astype(np.float32)
            case "has its own key":
                weights = jr.normal(jr.key(0), shape)
            case "mixes replicates":
                weights = mixed(weights)
            case "holds rows":
                extra = train_table.y
            case "holds a key":
                extra = key
            case "no policy":
                return weights
            case "asserts":
                assert settings is None, "no settings are taken"
        return Toy(weights, extra, wrong)

    return register("toy", summary="A toy.", **options)(fit)


def run(check: str, state: str = "s") -> None:
    dict(method_checks("toy", state=state, protocol=PAPER))[f"{state}-paper-{check}"]()  # type: ignore[arg-type]


def test_a_toy_with_nothing_wrong_passes() -> None:
    check_method(toy(), protocol=PAPER)


BROKEN = [
    ("no policy", "fit_gives_numbers", "fit gives a .*, which is no ascertain.policy.Policy"),
    ("looks at values", "fit_gives_numbers", r"jit\(vmap\(fit\)\) must work, but fails: Concretization"),
    ("asserts", "fit_gives_numbers", r"must work, but fails: AssertionError: no settings are taken"),
    (
        "NaN in barren rows",
        "fit_gives_numbers",
        r"must give numbers .* with the incomplete table policy\.weights holds NaN",
    ),
    ("forgets to stop", "scores_are_numbers", r"shape \(24, 7\), with stopping first, but have \(24, 6\)"),
    ("NaN", "scores_are_numbers", r"never NaN, but .* choice 1 is in .* plain case .* actions \[\] acquired"),
    ("infinite", "scores_are_numbers", "no action scores plus infinity, but"),
    ("sees availability", "availability_is_seen_only_if_declared", "blind to what is available, but"),
    ("sees hidden values", "hidden_values_do_not_matter", "not observed may not be looked at, but"),
    ("looks into holes", "unmeasured_values_do_not_matter", "cells that a training table lacks .*, but"),
    ("draws by NumPy", "fitting_is_deterministic", "same key must give the same policy, but tracing"),
    ("has its own key", "randomness_comes_from_the_key", "must come from the key, but"),
    ("mixes replicates", "companions_do_not_matter", "must be independent, but the policy of the plain case"),
    ("holds rows", "rows_are_kept_only_if_declared", r"keeps_rows=True, but .* policy\.extra has"),
    ("holds a key", "saving_keeps_it", "possible to save .* a random key, which cannot be saved"),
]


@pytest.mark.parametrize(("wrong", "check", "complaint"), BROKEN, ids=[wrong for wrong, _, _ in BROKEN])
def test_broken_promises_are_found(wrong: str, check: str, complaint: str) -> None:
    toy(wrong)
    with pytest.raises(AssertionError, match=r"^toy \(s, paper protocol\): .*" + complaint):
        run(check)


def test_rows_may_be_kept_if_that_is_declared() -> None:
    toy("holds rows", keeps_rows=True)
    run("rows_are_kept_only_if_declared")
    run("saving_keeps_it")


def test_a_filtering_policy_that_sees_nothing_is_found() -> None:
    toy("", states=("sm",))
    with pytest.raises(AssertionError, match=r"^toy \(sm, .* sm see what is available, but the scores never"):
        run("availability_is_seen_only_if_declared", "sm")
    toy("sees availability", states=("sm",))
    run("availability_is_seen_only_if_declared", "sm")


@dataclass
class Thawed:
    size: int = 3


@dataclass(frozen=True)
class Unhashable:
    sizes: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Unequal:
    size: int = 3


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (dict, "must be a frozen dataclass, which dict is not"),
        (Thawed, "must be a frozen dataclass, which Thawed is not"),
        (Unhashable, "must be hashable, but Unhashable is not: TypeError"),
        (Unequal, "of the same values must be equal, but those of Unequal are not"),
    ],
)
def test_settings_that_programs_cannot_be_compiled_for_are_found(
    settings: Callable[[], Any], complaint: str
) -> None:
    toy(settings=settings)
    with pytest.raises(AssertionError, match=complaint):
        run("settings_are_frozen")


def test_settings_of_another_method_are_found() -> None:
    toy(settings=Unequal)
    with pytest.raises(AssertionError, match="settings must be a Unequal, as registered, but are a Thawed"):
        check_method("toy", settings=Thawed())


def test_compiling_again_for_the_same_shape_is_found() -> None:
    toy(settings=Unequal)
    with pytest.raises(AssertionError, match="one compilation per shape, but fit was traced 2 times"):
        run("one_program_serves_all")


def test_a_policy_that_changes_when_saved_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def tampered(path: Path) -> SavedModel:
        model = load_model(path)
        return replace(model, policy=eqx.tree_at(lambda p: p.weights, model.policy, replace_fn=jnp.negative))

    monkeypatch.setattr("ascertain.testing._checks.load_model", tampered)
    toy()
    with pytest.raises(AssertionError, match="must score the same after it was saved"):
        run("saving_keeps_it")


def test_illegal_routes_are_found() -> None:
    """Rollouts leave a policy no way to do anything illegal, so what they recorded is changed here."""
    toy()
    trial = Trial(methods.get("toy"), "s", PAPER, None, n_actions=6)
    honest = trial.seen
    checks = {check.__name__: check for check in OF_POLICIES + OF_FITTING}
    for case, row, route, name, complaint in (
        # The first row of the incomplete table supports nothing, the second only what costs 4 of 3.
        (
            2,
            0,
            [2],
            "only_legal_actions_are_taken",
            r"row 0 of the incomplete .* supports \[\], .* \[1\]",
        ),
        (0, 5, [3, 3], "nothing_is_acquired_twice", r"row 5 of the plain table it takes \[2, 2\]"),
        (0, 7, [1, 2, 3], "the_budget_is_kept", r"budget of 2 .*, but in row 7 .* \[0, 1, 2\], which cost 3"),
        (2, 1, [1], "the_budget_is_kept", r"budget of 3 .*, but in row 1 .* \[0\], which cost 4"),
        (2, 1, [1], "barren_rows_are_left_alone", r"nothing can be acquired in row 1 .*, but it takes \[0\]"),
    ):
        checks[name](trial)
        choices = honest.episodes.choices.copy()
        choices[case, row] = route + [0] * (6 - len(route))
        trial.seen = honest._replace(episodes=honest.episodes._replace(choices=choices))
        with pytest.raises(AssertionError, match=complaint):
            checks[name](trial)
        trial.seen = honest


def test_checks_have_names_to_run_them_by() -> None:
    toy("", states=("s", "sm"))
    names = [name for name, _ in method_checks("toy")]
    assert len(set(names)) == len(names) == 4 * len(OF_POLICIES + OF_FITTING)
    assert {name.rpartition("-")[0] for name in names} == {
        "s-paper",
        "s-afabench",
        "sm-paper",
        "sm-afabench",
    }
