"""One policy from a dataset: the jobs of one cell of a study, computed one after the other.

The same stages, keys, settings and programs as in a study of width 1, so the scores are those of its cell on
the same device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float

from ascertain import methods, missingness, restoration
from ascertain._core.arrays import on_device
from ascertain._core.checks import check_rate
from ascertain.datasets._dataset import Dataset, Preparation
from ascertain.errors import InputError
from ascertain.methods._registry import State
from ascertain.models._saving import SavedModel, hash_table, save_model
from ascertain.policy import Policy
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.recipe._jobs import Job, TrainingData, in_order
from ascertain.recipe._materials import Materials, Scored
from ascertain.recipe._presets import Changes
from ascertain.recipe._programs import run_once
from ascertain.recipe._scoring import score_cell
from ascertain.restoration._registry import Restoring
from ascertain.restoration._treatments import check_treatment


@dataclass(frozen=True)
class Recipe:
    """One cell of a study: what to train, on which data.

    Examples
    --------
    >>> Recipe("gdfs", treatment="restored", restorer="hotdeck", rate=0.5).describe()
    'gdfs (s), restored after mcar 0.5 by hotdeck; split 0, paper protocol'
    """

    method: str
    state: str = "s"
    treatment: str = "complete"
    mechanism: str | None = "mcar"  # what hides cells; None: only the dataset's own holes
    rate: float = 0.7
    restorer: str = "pvae"  # or with the number of completions, as `ensemble:6`
    split: int = 0
    budget: float | None = None  # None: the dataset's largest
    protocol: Protocol = PAPER
    scored: Scored = "valid"
    seed: int = 0
    settings: Mapping[str, Changes] = field(default_factory=dict)  # as `[settings]` in a study file
    predictor: str = "mlp"

    def describe(self) -> str:
        """A one-line description."""
        what = f"{self.method} ({self.state}), {self.treatment}"
        if self.treatment != "complete" and self.mechanism is not None:
            what += f" after {self.mechanism} {self.rate:g}"
        if self.treatment == "restored":
            what += f" by {self.restorer}"
        return f"{what}; split {self.split}, {self.protocol.name} protocol"

    @property
    def data(self) -> TrainingData:
        """The training set; what does not apply to its treatment is left out."""
        if self.treatment == "complete":
            return TrainingData()
        holes = ("", 0.0) if self.mechanism is None else (self.mechanism, self.rate)
        restorer = str(Restoring.parse(self.restorer)) if self.treatment == "restored" else ""
        return TrainingData(self.treatment, *holes, restorer)

    @property
    def settings_names(self) -> set[str]:
        """The tables of `settings` that change something here; those of a study may name others, too."""
        named = [Restoring.parse(self.restorer).name] if self.treatment == "restored" else []
        restorers = [restoration.get(name) for name in named]
        parts: list[Any] = [methods.get(self.method), *restorers]
        shared = {part.shares.settings_name for part in parts if part.shares is not None}
        return {"predictor", *shared, *(part.name for part in parts)}

    def check(self) -> None:
        """Raise where something is named that does not exist."""
        method = methods.get(self.method)
        method.check_state(self.state)
        check_treatment(self.treatment)
        method.treating(method.settings(), self.treatment)
        Restoring.parse(self.restorer)
        if self.mechanism is not None:
            missingness.get(self.mechanism)
            check_rate(self.rate)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained policy, what it was trained and scored with, and its scores.

    Examples
    --------
    `train_policy` returns it; `examples/several_completions.py` looks at its scores.
    """

    recipe: Recipe
    problem: Problem
    preparation: Preparation
    settings: Any
    train: Table  # as treated
    valid: Table
    predictor: Any
    predictor_settings: Any
    policy: Policy
    scores: pd.DataFrame  # one row per budget (and estimator, where rows have holes)
    # At the largest budget; None where rows have holes.
    frequencies: Float[np.ndarray, "steps actions"] | None

    def save(self, path: str | Path) -> None:
        """Write policy, predictor and problem."""
        recipe = self.recipe
        model = SavedModel(
            method=recipe.method,
            policy=self.policy,
            problem=self.problem,
            settings=self.settings,
            state=cast(State, recipe.state),
            protocol=recipe.protocol,
            train_rows=self.train.n_instances,
            completions=self.train.completions,
            valid_rows=len(self.valid.y),
            data_hash=hash_table(self.train),
            seed=recipe.seed,
            predictor=self.predictor,
            predictor_name=recipe.predictor,
            predictor_settings=self.predictor_settings,
            preprocessing=_as_json(self.preparation),
        )
        save_model(path, model)


def train_policy(
    dataset: Dataset,
    recipe: Recipe,
    on_stage: Callable[[str, int, int], object] = lambda stage, done, total: None,
) -> Trained:
    """Train one policy as the paper does, and score it on rows that it was not trained on.

    Parameters
    ----------
    dataset
        The data.
    recipe
        What to train.
    on_stage
        Called with its name, how many are done and how many there are when a stage begins.

    Examples
    --------
    >>> from ascertain.datasets import cube
    >>> quick = Recipe("sequential", settings={"predictor": {"epochs": 2}})  # else the paper's settings
    >>> trained = train_policy(cube(100), quick)
    >>> trained.scores["mean_cost"].tolist()  # at each budget of the dataset
    [3.0, 5.0, 10.0]

    `examples/several_completions.py` computes a cell of a study with it.
    """
    recipe.check()
    if recipe.budget is not None:
        smaller = [each for each in dataset.budgets if each < recipe.budget]
        dataset = dataset.with_budgets([*smaller, recipe.budget])
    name, split = dataset.name, recipe.split
    materials = Materials({name: dataset}, recipe.protocol, scored=recipe.scored, keep_policies=True)
    if recipe.treatment == "complete" and materials.has_holes(name):
        raise InputError(
            f"{name} has missing cells of its own: train on 'restricted', 'restored' or 'direct' data"
        )
    jobs = materials.jobs(name, split, recipe.seed, recipe.settings, recipe.predictor)
    cell = jobs.cell(recipe.method, recipe.state, recipe.data)
    results: dict[str, Any] = {}

    def load(job: Job) -> Any:
        return results[job.id]

    ordered = in_order([cell])
    for place, job in enumerate(ordered):
        on_stage(job.stage, place, len(ordered))
        results[job.id] = run_once(materials.stage(job), materials.inputs(job, load))
    scores, frequencies = score_cell(cell, materials, results[cell.id], load)
    inputs, fitted = jax.tree.map(on_device, (materials.inputs(cell, load), results[cell.id]))
    return Trained(
        recipe,
        dataset.problem,
        dataset.preparation(split, recipe.protocol),
        cell.settings,
        inputs.train,
        inputs.valid,
        inputs.predictor,
        jobs.predictor.settings,
        fitted.policy,
        scores,
        frequencies,
    )


def _as_json(preparation: Preparation) -> dict[str, Any]:
    """A preparation as lists of numbers, with None for NaN."""
    lists = {name: values.tolist() for name, values in preparation._asdict().items()}
    return {name: [None if np.isnan(v) else v for v in values] for name, values in lists.items()}
