"""The settings of the paper and its reference implementation, by dataset."""

from dataclasses import replace

import pytest

from ascertain import InputError, load
from ascertain.datasets import Dataset
from ascertain.predictors._masked_mlp import Settings as PredictorSettings
from ascertain.protocol import AFABENCH, PAPER
from ascertain.recipe._presets import (
    PRESETS,
    method_settings,
    overridden,
    predictor_settings,
    restorer_settings,
)
from ascertain.restoration._pvae import Settings


def called(name: str) -> Dataset:
    """A dataset of another name: presets go by names."""
    return replace(load("cube"), name=name)


@pytest.mark.parametrize(
    ("dataset", "epochs", "batch_size", "dropout"),
    [
        ("actg175", 100, 64, 0.2),
        ("heart_disease", 100, 64, 0.2),
        ("nhanes_mortality", 100, 64, 0.2),
        ("cube", 2000, 128, 0.1),
        ("cube_nm", 2000, 128, 0.1),
        ("cube_nuc", 2000, 128, 0.1),
        ("miniboone", 1000, 128, 0.1),
        ("diabetes", 300, 128, 0.1),
        ("physionet2012", 100, 128, 0.1),
    ],
)
def test_settings_are_those_of_the_specification(
    dataset: str, epochs: int, batch_size: int, dropout: float
) -> None:
    found = predictor_settings(called(dataset))
    assert (found.epochs, found.batch_size, found.dropout) == (epochs, batch_size, dropout)


def test_what_the_specification_says_of_all_datasets() -> None:
    for settings in (PredictorSettings(), *(predictor_settings(called(name)) for name in PRESETS)):
        assert (settings.least_masked, settings.most_masked) == (0.0, 0.9)
        assert settings.hidden == (128, 128)
        assert settings.learning_rate == 1e-3


@pytest.mark.parametrize("dataset", ["cube_nm", "cube_nm_noiseless"])
def test_cube_nm_is_given_more_patience(dataset: str) -> None:
    patient = replace(Settings().schedule, patience=500, min_delta=1e-2)
    assert restorer_settings("pvae", called(dataset)) == Settings(schedule=patient)


def test_other_datasets_have_the_default() -> None:
    assert restorer_settings("pvae", called("actg175")) == Settings()
    assert predictor_settings(called("nobody's")) == PredictorSettings()


def test_static_routes_are_compared_by_the_datasets_metric() -> None:
    real = replace(called("mine"), metric="macro_f1")
    assert method_settings("static", real, PAPER).metric == "macro_f1"
    assert method_settings("static", called("cube"), PAPER).metric == "accuracy"


@pytest.mark.parametrize("method", ["gdfs", "dime"])
def test_cube_nuc_is_trained_for_as_many_steps_as_it_has_features_in_the_reference(method: str) -> None:
    unequal = load("cube_nuc").at(7.0)
    assert method_settings(method, unequal, AFABENCH).steps == unequal.problem.n_features == 20
    assert method_settings(method, unequal, PAPER).steps == 10  # the ten that cost 2/3
    assert method_settings(method, replace(unequal, name="mine"), AFABENCH).steps == 7  # the budget


@pytest.mark.parametrize(
    ("dataset", "epochs"), [("cube", 100), ("cube_nuc", 100), ("cube_nm", 200), ("mine", 200)]
)
def test_dime_is_pretrained_for_half_as_long_on_most_cubes(dataset: str, epochs: int) -> None:
    assert method_settings("dime", called(dataset), PAPER).pretraining_epochs == epochs


@pytest.mark.parametrize(
    ("dataset", "neighbours", "alpha"),
    [
        ("mine", 5, 0.05),
        ("cube", 5, 0.05),
        ("cube_nuc", 5, 0.05),
        ("heart_disease", 5, 0.05),
        ("actg175", 5, 0.02),
        ("nhanes_mortality", 5, 0.02),
        ("diabetes", 3, 0.1),
    ],
)
def test_aaco_searches_as_in_the_reference(dataset: str, neighbours: int, alpha: float) -> None:
    found = method_settings("aaco", called(dataset), PAPER)
    assert (found.neighbours, found.acquisition_cost, found.candidates) == (neighbours, alpha, 100)


def test_odin_is_given_the_shared_models_settings() -> None:
    shared = restorer_settings("pvae", called("cube_nm"))
    assert method_settings("odin", called("cube_nm"), AFABENCH, shared=shared).vae == shared


def test_changes_reach_nested_settings() -> None:
    changed = restorer_settings("pvae", called("cube_nm"), {"schedule": {"patience": 7}})
    assert (changed.schedule.patience, changed.schedule.min_delta) == (7, 1e-2)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InputError, match=r"settings.gdfs has no setting 'epoch'; did you mean 'epochs'\?"):
        overridden(method_settings("gdfs", called("cube"), PAPER), {"epoch": 1}, "settings.gdfs")
