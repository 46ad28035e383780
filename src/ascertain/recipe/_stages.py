"""The stages of the pipeline: predictor, mask, shared model, restoration, pretraining, policy, rollouts.

Where treatments are to be compared without complete rows (`auto` in a study), a mask also has propensities
and a judge, with which restorations are scored and policies are followed in its validation rows.

Everything that trains goes through here: studies for many replicates at once, `ascertain train` for one, and
`AcquisitionClassifier` for a person's table. A stage is data (hashable, picklable), and a pure function of
arrays, unless a part of it runs on the host.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from ascertain import methods, missingness, predictors, restoration
from ascertain._core.arrays import on_device
from ascertain._core.training import Training
from ascertain.evaluation._followed import Followed, follow
from ascertain.evaluation._propensity import availability_weights
from ascertain.evaluation._rollouts import budget_rollouts, sample_rows
from ascertain.missingness import mask_tables
from ascertain.policy import Policy
from ascertain.predictors._predictions import predict_in_jax
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.registry import SharedModel
from ascertain.restoration._restorer import Restorer, complete
from ascertain.restoration._score import score_rows

JUDGED_BY = "nearest"  # the restorer whose draws are the baseline, and the futures of all policies
JUDGED_ROWS = 2000  # validation rows that policies are followed in
ROUNDS = 25  # of a training between looks at who has stopped; a few seconds on a GPU
_SCORING = 100  # folded into a key to score restorers; small numbers would be those of `split`


class Judging(NamedTuple):
    """What all treatments of the same holes are compared with."""

    key: Any  # the same for all
    weights: Any = None  # of restorers' scores: 1 / P(a row has an action)
    judge: "Judge | None" = None
    rows: Table | None = None  # the validation rows with their holes
    budgets: Any = None


class Inputs(NamedTuple):
    """The inputs of a stage, for one replicate or stacked; those that it does not need are None."""

    key: Any
    problem: Problem
    train: Table  # as treated
    valid: Table
    rate: Any = None
    given: Any = None  # the shared model to begin with, or a method's pretraining
    predictor: Any = None
    scored: Table | None = None  # the rows that policies are evaluated on
    budgets: Any = None
    judging: Judging | None = None  # only if treatments are to be compared


class Masks(NamedTuple):
    """Which cells are left."""

    train: Any
    valid: Any


class Values(NamedTuple):
    """The cells of restored tables, and the restorer's score (`restoration.score_restorer`)."""

    train: Any
    valid: Any
    score: Any  # NaN in stores of earlier versions
    paired: Any = None  # the score row by row, on cells that are the same for all restorers


class Judge(NamedTuple):
    """What policies are judged by in rows with holes, fitted to other rows with holes."""

    predictor: Any
    futures: Any  # the restorer that draws what would have followed


class Fitted(NamedTuple):
    """A policy with its rollouts at every budget; what was not asked for is None."""

    policy: Any
    outcomes: Any
    probabilities: Any
    followed: Followed | None = None


class Place(NamedTuple):
    """One of the places of a program that trains."""

    taken: Any  # by a replicate that has not stopped
    fresh: Any  # whether it begins now


@dataclass(frozen=True)
class Stage:
    """What is computed for one replicate."""

    name: str  # `predictor`, `mask`, `availability`, `judge`, `share`, `restore`, `pretrain` or `fit`
    part: str = ""  # the predictor, mechanism, restorer or method by name
    settings: Any = None  # the part's
    protocol: Protocol = PAPER
    shared: SharedModel | None = None  # what `share` fits
    completions: int = 1  # of every training row, that `restore` makes
    judged: bool = False  # whether `restore` and `fit` also compute what treatments are compared by
    # Only for `fit`:
    state: str = ""
    n_steps: int = 0  # the most steps of a rollout
    separate: bool = False  # whether each budget needs its own rollouts
    keep_policy: bool = False  # whether the result includes the policy
    roll_out: bool = True  # and its rollouts

    def __call__(self, inputs: Inputs) -> Any:
        """Compute the stage; can be jitted and replicated unless it runs on the host."""
        inputs = inputs._replace(key=jr.wrap_key_data(inputs.key))
        return getattr(self, f"_{self.name}")(inputs)

    @property
    def trains(self) -> bool:
        """Whether it is a training that can be interrupted, by `advance`."""
        return self.shared is not None and self.shared.training is not None

    def untrained(self, inputs: Inputs) -> tuple[Any, Any]:
        """The state and the model before the first round of a training."""
        training = self._training(inputs)
        state = training.begin()
        return state, training.trained(state)

    def advance(self, inputs: Inputs, state: Any, place: "Place") -> tuple[Any, Any, Any]:
        """Train for some rounds: the state after them, whether training has stopped, and the best model.

        What `__call__` computes is the model after as many calls as it takes to stop.
        """
        training = self._training(inputs)
        state = jax.tree.map(lambda new, old: jnp.where(place.fresh, new, old), training.begin(), state)
        state = training.advance(state, jnp.where(place.taken, state.round + ROUNDS, 0))
        return state, training.has_stopped(state), training.trained(state)

    def _training(self, inputs: Inputs) -> Training[Any]:
        assert self.shared is not None
        assert self.shared.training is not None
        key, data = jr.wrap_key_data(inputs.key), (inputs.problem, inputs.train, inputs.valid)
        training: Training[Any] = self.shared.training(key, *data, self.settings)
        return training

    @property
    def on_host(self) -> bool:
        """Whether its part runs outside compiled programs, one replicate at a time."""
        kinds: dict[str, Any] = {"predictor": predictors, "mask": missingness}
        kinds |= {"restore": restoration, "fit": methods, "judge": predictors}
        if self.name == "availability":
            return True
        return self.name in kinds and bool(kinds[self.name].get(self.part).on_host)

    def _predictor(self, inputs: Inputs) -> Any:
        fit = predictors.get(self.part).fit
        data = (inputs.problem, inputs.train, inputs.valid)
        return fit(inputs.key, *data, settings=self.settings, weights=None)

    def _mask(self, inputs: Inputs) -> Masks:
        mechanism = missingness.get(self.part)
        masked = mask_tables(inputs.key, mechanism, inputs.problem, inputs.train, inputs.valid, inputs.rate)
        return Masks(*(table.available for table in masked))

    def _availability(self, inputs: Inputs) -> Float[Array, "instances actions"]:
        return on_device(availability_weights(inputs.problem, inputs.valid), np.float32)

    def _judge(self, inputs: Inputs) -> Judge:
        futures = fit_restorer(inputs.key, JUDGED_BY, inputs.problem, inputs.train, inputs.valid, None)
        return Judge(self._predictor(inputs), futures)

    def _share(self, inputs: Inputs) -> Any:
        assert self.shared is not None
        return self.shared.fit(inputs.key, inputs.problem, inputs.train, inputs.valid, self.settings)

    def _restore(self, inputs: Inputs) -> Values:
        fitting, *drawing = jr.split(inputs.key, 3)
        restorer = fit_restorer(
            fitting, self.part, inputs.problem, inputs.train, inputs.valid, self.settings, inputs.given
        )
        tables = (inputs.train, inputs.valid)
        # A validation row counts once, so it is restored once.
        numbers = (self.completions, 1)
        train, valid = (
            complete(k, restorer, table, n).x for k, table, n in zip(drawing, tables, numbers, strict=True)
        )
        if not self.judged:
            score = score_rows(jr.fold_in(inputs.key, _SCORING), inputs.problem, restorer, *tables)
            return Values(train, valid, score.mean)
        assert inputs.judging is not None
        # With a key and weights that are the same for all restorers.
        common = jr.wrap_key_data(inputs.judging.key)
        score = score_rows(common, inputs.problem, restorer, *tables, inputs.judging.weights)
        return Values(train, valid, score.mean, score)

    def _pretrain(self, inputs: Inputs) -> Any:
        pretrain = methods.get(self.part).pretrain
        assert pretrain is not None
        arguments = (inputs.key, inputs.problem, inputs.train, inputs.valid)
        return pretrain(*arguments, settings=self.settings, protocol=self.protocol)

    def _fit(self, inputs: Inputs) -> Fitted:
        fitting, acting = jr.split(inputs.key)
        policy = methods.get(self.part).fit(
            fitting,
            inputs.problem,
            inputs.train,
            inputs.valid,
            predictor=inputs.predictor,
            pretrained=inputs.given,
            settings=self.settings,
            state=self.state,
            protocol=self.protocol,
        )
        kept = policy if self.keep_policy else None
        followed = self._followed(inputs, policy)
        if not self.roll_out:
            return Fitted(kept, None, None, followed)
        assert inputs.scored is not None
        rollouts = budget_rollouts(
            acting,
            policy,
            inputs.problem,
            inputs.scored,
            inputs.budgets,
            protocol=self.protocol,
            n_steps=self.n_steps,
            separate=self.separate,
        )
        predicted = predict_in_jax(inputs.predictor, inputs.problem, inputs.scored, rollouts.acquired)
        return Fitted(kept, rollouts, predicted, followed)

    def _followed(self, inputs: Inputs, policy: Policy) -> Followed | None:
        """Follow the policy in validation rows with holes."""
        if not self.judged:
            return None
        judging = inputs.judging
        assert judging is not None
        assert judging.judge is not None
        assert judging.rows is not None
        return follow(
            jr.wrap_key_data(judging.key),
            policy,
            inputs.problem,
            sample_rows(judging.rows, JUDGED_ROWS, seed=0),
            judging.judge.predictor,
            judging.judge.futures,
            judging.budgets,
            protocol=self.protocol,
            n_steps=self.n_steps,
            separate=self.separate,
        )


def fit_restorer(
    key: Any, name: str, problem: Problem, train: Table, valid: Table, settings: Any, pretrained: Any = None
) -> Restorer:
    """Fit a restorer by its name, from the fitted shared model if that is given."""
    part = restoration.get(name)
    more = {} if part.shares is None else {"pretrained": pretrained}
    settings = part.settings() if settings is None else settings
    fitted: Restorer = part.fit(key, problem, train, valid, settings=settings, **more)
    return fitted
