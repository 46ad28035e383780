"""The stages of the pipeline: predictor, mask, shared model, restoration, pretraining, policy, rollouts.

Everything that trains goes through here: studies for many replicates at once, `ascertain train` for one, and
`AcquisitionClassifier` for a person's table. A stage is data (hashable, picklable), and a pure function of
arrays, unless a part of it runs on the host.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.random as jr

from ascertain import methods, missingness, predictors, restoration
from ascertain.evaluation._rollouts import budget_rollouts
from ascertain.missingness import mask_tables
from ascertain.predictors._predictions import predict_in_jax
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.registry import SharedModel
from ascertain.restoration._restorer import Restorer, complete
from ascertain.restoration._score import score_rows

_SCORING = 100  # folded into a key to score restorers; small numbers would be those of `split`


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


class Masks(NamedTuple):
    """Which cells are left."""

    train: Any
    valid: Any


class Values(NamedTuple):
    """The cells of restored tables, and the restorer's score (`restoration.score_restorer`)."""

    train: Any
    valid: Any
    score: Any  # NaN in stores of earlier versions


class Fitted(NamedTuple):
    """A policy with its rollouts at every budget; what was not asked for is None."""

    policy: Any
    outcomes: Any
    probabilities: Any


@dataclass(frozen=True)
class Stage:
    """What is computed for one replicate."""

    name: str  # `predictor`, `mask`, `share`, `restore`, `pretrain` or `fit`
    part: str = ""  # the predictor, mechanism, restorer or method by name
    settings: Any = None  # the part's
    protocol: Protocol = PAPER
    shared: SharedModel | None = None  # what `share` fits
    completions: int = 1  # of every training row, that `restore` makes
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
    def on_host(self) -> bool:
        """Whether its part runs outside compiled programs, one replicate at a time."""
        kinds: dict[str, Any] = {"predictor": predictors, "mask": missingness}
        kinds |= {"restore": restoration, "fit": methods}
        return self.name in kinds and bool(kinds[self.name].get(self.part).on_host)

    def _predictor(self, inputs: Inputs) -> Any:
        fit = predictors.get(self.part).fit
        data = (inputs.problem, inputs.train, inputs.valid)
        return fit(inputs.key, *data, settings=self.settings, weights=None)

    def _mask(self, inputs: Inputs) -> Masks:
        mechanism = missingness.get(self.part)
        masked = mask_tables(inputs.key, mechanism, inputs.problem, inputs.train, inputs.valid, inputs.rate)
        return Masks(*(table.available for table in masked))

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
        score = score_rows(jr.fold_in(inputs.key, _SCORING), inputs.problem, restorer, *tables)
        return Values(train, valid, score.mean)

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
        if not self.roll_out:
            return Fitted(kept, None, None)
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
        return Fitted(kept, rollouts, predicted)


def fit_restorer(
    key: Any, name: str, problem: Problem, train: Table, valid: Table, settings: Any, pretrained: Any = None
) -> Restorer:
    """Fit a restorer by its name, from the fitted shared model if that is given."""
    part = restoration.get(name)
    more = {} if part.shares is None else {"pretrained": pretrained}
    settings = part.settings() if settings is None else settings
    fitted: Restorer = part.fit(key, problem, train, valid, settings=settings, **more)
    return fitted
