"""From a dataset to a trained and scored policy."""

from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from ascertain import InputError, load_model
from ascertain.datasets import Dataset, from_frame
from ascertain.protocol import AFABENCH
from ascertain.recipe import Recipe, train_policy


@pytest.fixture(scope="module")
def clinic() -> Dataset:
    """Two hundred rows of which `decides` alone gives the class; `wide` is a group of two columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    frame = pd.DataFrame(x, columns=["noise", "decides", "left", "right"])
    frame["ill"] = np.where(x[:, 1] > 0, "yes", "no")
    return from_frame(
        frame,
        target="ill",
        costs={"noise": 1, "decides": 2, "wide": 1.5},
        groups={"wide": ["left", "right"]},
        budget=3,
    )


def test_a_policy_is_trained_and_scored_stage_by_stage(clinic: Dataset) -> None:
    stages: list[str] = []
    trained = train_policy(clinic, Recipe("static"), lambda stage, done, total: stages.append(stage))
    assert stages == ["predictor", "fit"]
    assert trained.scores["budget"].tolist() == [3.0]
    # The route with `decides` is right nearly always; the others are right half of the time.
    assert trained.scores["accuracy"].item() > 0.8
    actions = clinic.problem.action_names
    assert actions is not None
    assert trained.frequencies is not None
    assert trained.frequencies[:, actions.index("decides")].sum() == pytest.approx(1.0)
    assert bool(trained.train.available.all())


@pytest.mark.parametrize("restorer", ["hotdeck", "mean"])
def test_treatments_make_holes_and_fill_them(clinic: Dataset, restorer: str) -> None:
    recipe = Recipe("sequential", treatment="restricted", rate=0.5, protocol=AFABENCH)
    restricted = train_policy(clinic, recipe)
    missing = 1 - float(restricted.train.available.mean())
    # 120 rows x 3 actions drawn at rate 1/2, less those redrawn for being empty (1/8): five deviations.
    assert abs(missing - 0.5 * (1 - 1 / 8)) < 5 * 0.5 / np.sqrt(360)
    restored = train_policy(clinic, replace(recipe, treatment="restored", restorer=restorer))
    assert bool(restored.train.available.all())
    seen = np.asarray(restricted.train.available)
    assert np.array_equal(np.asarray(restored.train.x)[seen], np.asarray(restricted.train.x)[seen])
    # Scores are of complete rows, so a policy that learns nothing has the same whatever it was trained on.
    assert restored.scores.equals(restricted.scores)


def test_a_smaller_budget_is_trained_and_scored_for(clinic: Dataset) -> None:
    trained = train_policy(clinic, Recipe("sequential", budget=1.0))
    assert trained.scores["budget"].tolist() == [1.0]
    assert trained.scores["mean_cost"].item() == 1.0


def test_what_is_saved_decides_as_before(clinic: Dataset, tmp_path: object) -> None:
    trained = train_policy(clinic, Recipe("static", seed=3))
    folder = f"{tmp_path}/model"
    trained.save(folder)
    loaded = load_model(folder)
    rows = trained.valid
    nothing = jnp.zeros((len(rows.y), clinic.problem.n_actions), bool)
    unseen = jnp.zeros(rows.x.shape, bool)
    before, after = (
        policy(rows.x, unseen, nothing, ~nothing, key=jr.key(0)) for policy in (trained.policy, loaded.policy)
    )
    assert np.array_equal(before, after)
    assert loaded.seed == 3
    assert loaded.problem.action_names == clinic.problem.action_names


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"method": "jaffa"}, "did you mean 'jafa'"),
        ({"state": "sm"}, "static has the state variant 's', not 'sm'"),
        ({"mechanism": "mcra"}, "no mechanism is called 'mcra'; did you mean 'mcar'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_runs(
    clinic: Dataset, wrong: dict[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        train_policy(clinic, replace(Recipe("static"), **wrong), lambda *stage: pytest.fail(str(stage)))  # type: ignore[arg-type]
