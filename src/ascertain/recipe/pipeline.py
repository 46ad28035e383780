"""From a dataset to a fitted and scored policy: split, mask, treat, fit, acquire, score (section 5.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain import methods
from ascertain.datasets.dataset import Dataset, Preparation
from ascertain.errors import InputError
from ascertain.evaluation import curves as evaluation
from ascertain.methods.registry import State
from ascertain.missingness import MECHANISMS, mask_tables
from ascertain.models.saving import SavedModel, hash_table, save_model
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import MaskedMLP, fit_predictor
from ascertain.predictors.masked_mlp import settings_for as predictor_settings_for
from ascertain.predictors.predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import PVAERestorer, Restorer, fit_hotdeck, fit_mean, fit_pvae, treat
from ascertain.restoration.pvae import settings_for as pvae_settings_for
from ascertain.restoration.treatments import TREATMENTS

RESTORERS = ("pvae", "hotdeck", "mean")


@dataclass(frozen=True)
class Recipe:
    """What to train on which data."""

    method: str
    state: str = "s"
    treatment: str = "complete"
    mechanism: str | None = "mcar"  # what hides cells; None: only the dataset's own holes
    rate: float = 0.7
    restorer: str = "pvae"
    split: int = 0
    budget: float | None = None  # None: the dataset's largest
    protocol: Protocol = PAPER
    seed: int = 0
    settings: Any = None  # None: the paper's

    def describe(self) -> str:
        """Say what is trained, in a line."""
        what = f"{self.method} ({self.state}), {self.treatment}"
        if self.treatment != "complete" and self.mechanism is not None:
            what += f" after {self.mechanism} {self.rate:g}"
        if self.treatment == "restored":
            what += f" by {self.restorer}"
        return f"{what}; split {self.split}, {self.protocol.name} protocol"

    def check(self) -> None:
        """Raise where something is named that does not exist."""
        methods.get(self.method).check_state(self.state)
        for what, value, known in (
            ("treatment", self.treatment, TREATMENTS),
            ("mechanism", self.mechanism, (None, *MECHANISMS)),
            ("restorer", self.restorer, RESTORERS),
        ):
            if value not in known:
                listed = ", ".join(str(each) for each in known if each is not None)
                raise InputError(f"no {what} is called {value!r}; there are {listed}")


@dataclass(frozen=True, eq=False)
class Trained:
    """A policy, what it was trained and scored with, and how it did on complete validation rows."""

    recipe: Recipe
    problem: Problem
    preparation: Preparation
    settings: Any
    train: Table  # as treated
    valid: Table
    predictor: MaskedMLP
    policy: Policy
    scores: pd.DataFrame  # one row per budget
    frequencies: Float[Array, "steps actions"]  # at the largest budget

    def save(self, folder: str | Path) -> None:
        """Write policy, predictor and problem into a folder."""
        recipe = self.recipe
        model = SavedModel(
            method=recipe.method,
            policy=self.policy,
            problem=self.problem,
            settings=self.settings,
            state=cast(State, recipe.state),
            protocol=recipe.protocol,
            train_rows=len(self.train.y),
            valid_rows=len(self.valid.y),
            data_hash=hash_table(self.train),
            seed=recipe.seed,
            predictor=self.predictor,
            preprocessing=_as_json(self.preparation),
        )
        save_model(folder, model)


STAGES = ("fixed predictor", "training data", "policy", "evaluation")


def train_policy(
    dataset: Dataset, recipe: Recipe, on_stage: Callable[[str], object] = lambda stage: None
) -> Trained:
    """Train one policy as the paper does, and score it on the complete validation rows.

    Parameters
    ----------
    dataset
        The data.
    recipe
        What to train.
    on_stage
        Called with a description when a stage begins; there are `len(STAGES)`.
    """
    recipe.check()
    if recipe.budget is not None:
        dataset = dataset.at(recipe.budget)
    problem = dataset.problem
    split = dataset.split(recipe.split, recipe.protocol)
    predicting, masking, restoring, fitting, acting = jr.split(jr.key(recipe.seed), 5)
    plain = problem.without_names()
    on_stage(STAGES[0])
    of_predictor = predictor_settings_for(dataset.name)
    predictor = _fit_predictor(predicting, plain, split.train, split.valid, of_predictor)
    on_stage(STAGES[1])
    train, valid = _treated(masking, restoring, dataset, split.train, split.valid, recipe)
    on_stage(STAGES[2])
    method, settings = methods.get(recipe.method), recipe.settings
    if settings is None:
        settings = method.settings_for(problem, recipe.protocol, dataset.name)
    settings = method.completed(settings, problem, recipe.protocol)
    policy = methods.fit(
        recipe.method,
        fitting,
        problem,
        train,
        valid,
        predictor=predictor,
        settings=settings,
        state=cast(State, recipe.state),
        protocol=recipe.protocol,
    )
    on_stage(STAGES[3])
    budget = float(problem.budget)
    budgets = [each for each in dataset.budgets if each < budget] + [budget]
    rows = evaluation.sample_rows(split.valid, evaluation.MAX_ROWS, recipe.split)
    reached = evaluation.reach(acting, policy, problem, rows, budgets, protocol=recipe.protocol)
    probabilities = predict_sets(predictor, problem, rows, reached.acquired)
    scores = evaluation.scores(reached, probabilities, rows.y)
    scores.insert(0, "budget", budgets)
    preparation = dataset.preparation(recipe.split, recipe.protocol)
    return Trained(
        recipe,
        problem,
        preparation,
        settings,
        train,
        valid,
        predictor,
        policy,
        scores,
        reached.frequencies[-1],
    )


_fit_predictor = eqx.filter_jit(fit_predictor)
_fit_pvae = eqx.filter_jit(fit_pvae)


def _as_json(preparation: Preparation) -> dict[str, Any]:
    """Give a preparation as lists of numbers, with None for NaN."""
    lists = {name: values.tolist() for name, values in preparation._asdict().items()}
    return {name: [None if np.isnan(v) else v for v in values] for name, values in lists.items()}


def _treated(
    masking: PRNGKeyArray,
    restoring: PRNGKeyArray,
    dataset: Dataset,
    train: Table,
    valid: Table,
    recipe: Recipe,
) -> tuple[Table, Table]:
    """Hide cells and treat the holes."""
    if recipe.treatment == "complete":
        return treat(train, "complete"), treat(valid, "complete")
    problem = dataset.problem.without_names()
    if recipe.mechanism is not None:
        mechanism = MECHANISMS[recipe.mechanism]
        train, valid = mask_tables(masking, mechanism, problem, train, valid, recipe.rate)
    if recipe.treatment == "restricted":
        return train, valid
    fitting, drawing, drawing_valid = jr.split(restoring, 3)
    restorer = _fit_restorer(fitting, recipe.restorer, problem, train, valid, dataset.name)
    return (
        treat(train, "restored", restorer=restorer, key=drawing),
        treat(valid, "restored", restorer=restorer, key=drawing_valid),
    )


def _fit_restorer(
    key: PRNGKeyArray, name: str, problem: Problem, train: Table, valid: Table, dataset: str
) -> Restorer:
    if name == "pvae":
        return PVAERestorer(_fit_pvae(key, problem, train, valid, pvae_settings_for(dataset)))
    if name == "hotdeck":
        return fit_hotdeck(key, problem, train)
    return fit_mean(train)
