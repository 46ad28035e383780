"""The planner: what each acquisition will have gained once the budget is spent.

Training rows whose cells are known leave nothing about the environment to be tried out: what an action
reveals in a row is in the row, its price is in the price list, and the end is worth what a predictor makes of
it. So values are fitted by full-width backups: in every visited state all actions that the row has get a
target.

The gain of an action is the expected rise of the utility from now to the end of the budget. The utility is
the log probability of the true class or, where decisions have costs, minus the cost of the decision. A gain's
target is the rise by this action in the row at hand, plus the best gain after it.
What the row's label adds before and after the action cancels, so targets vary little, and gains of one step
are learned first. The remaining budget is an input: one policy serves every budget.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.compilation import replicated
from ascertain._core.effort import Effort
from ascertain._core.hashing import mix
from ascertain._core.networks import LOWEST, MLP, dropout_masks
from ascertain._core.row_draws import BlockedRows, WeightedRows, weighted_rows
from ascertain._core.settings import (
    Amount,
    AtLeastTwo,
    AtOnce,
    Count,
    Finite,
    Positive,
    Share,
    ShareBelowOne,
    Sizes,
    Unrolled,
)
from ascertain._core.training import Batch, Schedule, cross_entropy, train
from ascertain.acquisition import acquire
from ascertain.decisions import decide
from ascertain.errors import InputError
from ascertain.methods._availability import Overlap, availability_weights, fit_overlap, overlap_everywhere
from ascertain.methods._dqn import explore, polyak
from ascertain.methods._pretraining import mask_inputs
from ascertain.methods._registry import State, register
from ascertain.methods._utility import Utility, utility_class_weights, utility_unit
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

Tree = TypeVar("Tree")

_BUDGET_SHARES = (1.0, 0.5, 0.25)  # of the budget, at which checkpoints are compared
_LEVELS = 12  # budgets to choose from where money has a price
_TINY = 1e-12  # added to probabilities before the logarithm
_RIGHT_WEIGHT = 0.3  # of the error of "right at the end" against that of the gain
_COPIES = 4  # of a validation row, to calibrate
_UNSUPPORTED = 100.0  # off the gain of what rows like this one hardly ever have
_PREDICTOR = Schedule(batch_size=128, batches_per_round=100, max_rounds=60, patience=20)


@dataclass(frozen=True)
class Settings:
    """Architecture and training of the planner."""

    updates: Count = 3000  # at most: training stops when validation does not improve
    slots: AtOnce = 128  # states per update ...
    direct_slots: AtOnce = 256  # ... more in direct learning, where rows with holes have few targets each
    hidden: Sizes = (128, 128)
    networks: Unrolled = 2  # whose values are averaged
    learning_rate: Positive = 1e-3
    decay: Count = 600  # updates after which the learning rate has halved
    weight_decay: Amount = 0.3  # so that noise is not taken for a reason to adapt ...
    direct_weight_decay: Amount = 1.0  # ... more in direct learning, where validation cannot stop in time
    average_rate: Share = 0.01  # of the moving average that gives targets, and acts in the end
    last_epsilon: Share = 0.15  # random choices fall from all to this share ...
    exploring: Count = 1500  # ... over this many updates; longer plans are found late
    floor: Finite = -4.0  # of the utility
    updates_per_round: AtOnce = 100  # between validations
    patience: Count = 15  # rounds without an improvement before training stops
    max_rows: Count = 1024  # for validation
    folds: AtLeastTwo = 5  # a row's utility comes from a predictor that was trained on the other folds
    predictor_dropout: ShareBelowOne = 0.1
    predictor: Schedule = _PREDICTOR
    direct: bool = False  # holes give no target, in place of making actions illegal
    steps: AtOnce | None = None  # the most acquisitions of an episode; by default what the budget pays for
    money: Positive | None = None  # what a unit of cost must save for it to be spent; None: spend the budget

    def completed(self, problem: Problem, protocol: Protocol) -> "Settings":
        """Fill in the number of steps."""
        del protocol
        return self if self.steps is not None else replace(self, steps=problem.most_acquisitions())

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for as many updates as an effort allows."""
        del n_rows
        return replace(
            self,
            updates=min(self.updates, effort.planner_updates),
            exploring=min(self.exploring, effort.planner_updates // 2),
        )


class _Values(NamedTuple):
    """What an action leads to, if the best ones follow until the budget is spent."""

    gain: Float[Array, "*batch actions"]  # the expected rise of the utility
    right: Float[Array, "*batch actions"]  # the log-odds that the last prediction is right


class Planner(Policy):
    """The fitted policy."""

    networks: tuple[MLP, ...]
    predictors: MLP  # stacked, one for each fold
    problem: Problem
    longest: Float[Array, ""]  # the budget that it was trained for
    slope_and_shift: Float[Array, " 2"]  # calibrate the logit of "right at the end"
    money: Float[Array, ""]  # the price of a unit of cost, in nats or in decision costs
    unit: Float[Array, ""]  # what a gain of 1 is: a nat, or so much of decision costs
    overlap: Overlap  # what plans may count on
    state: State = eqx.field(static=True)
    may_stop: bool = eqx.field(static=True)
    net: bool = eqx.field(static=True)  # whether gains are less what is spent on them, as it was trained

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the expected gain; where money has a price, less the price of the best budget for it."""
        del key
        view = _View(x, observed, acquired, available & ~acquired, self.belief(x, observed))
        spent = self.problem.total_cost(acquired)
        if self.net or not self.may_stop:
            gain = self._affordable_gain(view, spent)
            return jnp.concatenate([jnp.full_like(gain[:, :1], 0.0 if self.net else -jnp.inf), gain], axis=1)
        left = self.problem.budget - spent

        def after_paying(level: Float[Array, ""]) -> Float[Array, "instances actions"]:
            paid = jnp.clip(left, 0.0, level)
            return self._affordable_gain(view, self.problem.budget - paid) - self.money * paid[:, None]

        levels = self.longest * jnp.arange(1, _LEVELS + 1) / _LEVELS
        net_gain = jnp.max(jax.lax.map(after_paying, levels), axis=0)
        return jnp.concatenate([jnp.zeros_like(net_gain[:, :1]), net_gain], axis=1)

    def at(self, budget: float | Float[Array, ""]) -> "Planner":
        """The policy for another budget: it plans for what is left."""
        return eqx.tree_at(lambda policy: policy.problem, self, self.problem.at(budget))

    def stopping_at(self, threshold: float) -> "Planner":
        """The policy for soft budgets: a unit of cost must raise the log probability by this much.

        Where decisions have costs, it must lower these by this much. Plans then count on spending one of a
        few amounts; a planner that is fitted with `money` plans for what it will spend.
        """
        if self.net:
            raise InputError("this planner stops at the price of money that it was fitted with")
        return replace(self, money=jnp.asarray(threshold, jnp.float32), may_stop=True)

    def outlook(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
    ) -> Float[Array, "instances actions"]:
        """The probability that the prediction is right once the budget is spent, after each action now.

        NaN for a policy that may stop before.
        """
        if self.may_stop:  # the budget will not be spent
            return jnp.full(acquired.shape, jnp.nan)
        view = _View(x, observed, acquired, available & ~acquired, self.belief(x, observed))
        logit = self.values(self.networks, view, self.problem.total_cost(acquired)).right
        slope, shift = self.slope_and_shift
        return jax.nn.sigmoid(slope * logit + shift)

    def belief(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """The mean prediction of the folds' predictors."""
        logits = replicated(lambda network: network(mask_inputs(x, observed)))(self.predictors)
        return jnp.mean(jax.nn.softmax(logits), axis=0)

    def values(self, networks: tuple[MLP, ...], view: "_View", spent: Float[Array, "*batch"]) -> _Values:
        """The mean values of networks."""
        inputs = self._inputs(view, spent)
        both = jnp.mean(jnp.stack([network(inputs) for network in networks]), axis=0)
        return _Values(both[..., : self.problem.n_actions], both[..., self.problem.n_actions :])

    def _affordable_gain(
        self, view: "_View", spent: Float[Array, "*batch"]
    ) -> Float[Array, "*batch actions"]:
        # Under protocols that leave the budget to the policy, an unaffordable choice would end the episode.
        affordable = self.problem.affordable(view.acquired, spent)
        gain = self.values(self.networks, view, spent).gain
        seen = jnp.where(view.observed, view.x, 0.0)
        gain = jnp.where(self.overlap(seen, view.acquired), gain, gain - _UNSUPPORTED)
        return jnp.where(affordable, self.unit * gain, LOWEST)

    def _inputs(self, view: "_View", spent: Float[Array, "*batch"]) -> Float[Array, "*batch inputs"]:
        left = jnp.clip((self.problem.budget - spent) / jnp.maximum(self.longest, _TINY), 0.0, 1.0)
        payable = self.problem.affordable(view.acquired, spent) & ~view.acquired
        parts = [mask_inputs(view.x, view.observed), left[..., None], payable, view.belief]
        if self.state == "sm":
            parts.append(view.open)
        return jnp.concatenate([part.astype(view.x.dtype) for part in parts], axis=-1)


class _View(NamedTuple):
    """What the planner sees of rows."""

    x: Float[Array, "*batch features"]
    observed: Bool[Array, "*batch features"]
    acquired: Bool[Array, "*batch actions"]
    open: Bool[Array, "*batch actions"]  # available and not yet acquired
    belief: Float[Array, "*batch classes"]


class _Slots(NamedTuple):
    """Episodes in progress. Some begin with acquired actions that were not paid for, to see more states."""

    row: Int[Array, "*folds slots"]
    acquired: Bool[Array, "*folds slots actions"]
    spent: Float[Array, "*folds slots"]


class _Progress(NamedTuple):
    networks: tuple[MLP, ...]
    optimiser: Any
    average: tuple[MLP, ...]
    slots: _Slots
    best: tuple[MLP, ...]
    best_utility: Float[Array, ""]
    update: Int[Array, ""]
    waited: Int[Array, ""]  # rounds since the best one


def pretrain(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, *, settings: Settings, protocol: Protocol
) -> MLP:
    """Fit one predictor for each fold, to the rows of the other folds. Its result is stacked."""
    del protocol
    fold = row_folds(train, settings.folds)

    def without(fold_and_key: tuple[Int[Array, ""], PRNGKeyArray]) -> MLP:
        held_out, key = fold_and_key
        return _fit_predictor(key, problem, train, valid, (fold != held_out).astype(jnp.float32), settings)

    fitted: MLP = replicated(without)((jnp.arange(settings.folds), jr.split(key, settings.folds)))
    return fitted


def row_folds(table: Table, folds: int) -> Int[Array, " rows"]:
    """Assign instances to folds, as good as at random; rows of the same instance are in the same one."""
    return (mix(table.ids.astype(jnp.uint32)) % folds).astype(jnp.int32)


def _fit_predictor(
    key: PRNGKeyArray,
    problem: Problem,
    table: Table,
    valid: Table,
    kept: Float[Array, " rows"],
    settings: Settings,
) -> MLP:
    """A masked network on random sets of actions, for the rows that are kept."""
    building, training, hiding = jr.split(key, 3)
    sizes = (2 * problem.n_features, *settings.hidden, problem.n_classes)
    weights = utility_class_weights(problem, table.y)

    def subset(key: PRNGKeyArray, n_rows: int) -> Bool[Array, "rows features"]:
        rate, uniform = jr.split(key)
        hidden = jr.uniform(uniform, (n_rows, problem.n_actions)) < jr.uniform(rate, (n_rows, 1))
        return problem.observed(~hidden)

    def loss(network: MLP, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        choosing, dropping = jr.split(key)
        x, y = table.x[batch.rows], table.y[batch.rows]
        seen = subset(choosing, len(batch.rows)) & table.available[batch.rows]
        rate = settings.predictor_dropout
        keep = [
            dropout_masks(k, rate, (len(batch.rows), width))
            for k, width in zip(jr.split(dropping, len(settings.hidden)), settings.hidden, strict=True)
        ]
        logits = network(mask_inputs(x, seen), keep=keep, dropout=rate)
        weight = batch.weight * kept[batch.rows]
        total = jnp.sum(weight * weights[y])
        return jnp.sum(weight * cross_entropy(logits, y, weights)) / jnp.maximum(total, _TINY)

    seen = subset(hiding, len(valid.y)) & valid.available

    def validate(network: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        return jnp.mean(cross_entropy(network(mask_inputs(valid.x, seen)), valid.y, weights))

    network = MLP(sizes, key=building)
    return train(
        training,
        network,
        loss,
        validate,
        table.n_instances,
        settings.predictor,
        completions=table.completions,
    )


@register(
    "planner",
    summary="Value iteration over the training rows: the gain of each acquisition at the end of the budget.",
    settings=Settings,
    label="planner",
    color="#5B4DB3",
    kind="terminal",
    family="plans ahead",
    use_when="Where one result decides what to measure next: finds what is worth it for what it leads to.",
    stops="at a price of a unit of cost that you give (thresholds=, or money in its settings)",
    weighs_prices=True,
    pretrain=pretrain,
    states=("s", "sm"),
    learns_directly=True,
    splits_rows=True,
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: MLP | None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Planner:
    """Fit out-of-fold predictors (unless given), then the values; keep the best round by validation.

    Takes what every method takes (see `Method`). `predictor` is used only to say how often the last
    prediction is right: plans follow the planner's own predictors, which have seen nothing but `train`.
    """
    pretraining, building, training, calibrating = jr.split(key, 4)
    if pretrained is None:
        pretrained = pretrain(pretraining, problem, train, valid, settings=settings, protocol=protocol)
    n_inputs = 2 * problem.n_features + 1 + problem.n_actions * (1 + (state == "sm")) + problem.n_classes
    sizes = (n_inputs, *settings.hidden, 2 * problem.n_actions)
    networks = tuple(MLP(sizes, key=k) for k in jr.split(building, settings.networks))
    overlapping = jr.fold_in(training, 1)
    readable = problem.readable(train.available)
    policy = Planner(
        networks,
        pretrained,
        problem.without_names(),
        problem.budget,
        jnp.array([1.0, 0.0]),
        jnp.asarray(0.0),
        utility_unit(problem, train.y),
        fit_overlap(overlapping, problem, train, readable)
        if settings.direct
        else overlap_everywhere(problem),
        state,
        settings.money is not None,
        settings.money is not None,
    )
    planning = _Planning(training, policy, train, valid, settings)
    best = planning.run(training)
    fitted = eqx.tree_at(lambda p: p.networks, policy, best)
    return _calibrated(calibrating, fitted, predictor, planning.valid, planning.n_steps)


class _Planning(eqx.Module):
    """Value iteration on the rows of a training table."""

    policy: Planner  # with its first networks
    train: Table
    valid: Table
    available: Bool[Array, "rows actions"]
    weights: Float[Array, "rows actions"] | None  # of a row's targets; None: all the same
    rows: WeightedRows | BlockedRows  # to draw one of a fold
    utility: Utility
    settings: Settings = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, policy: Planner, train: Table, valid: Table, settings: Settings):
        problem = policy.problem
        self.policy, self.train, self.settings = policy, train, settings
        self.utility = Utility(problem.decision_costs, policy.unit, settings.floor)
        self.valid = valid.take(jnp.arange(min(len(valid.y), settings.max_rows)))
        self.available = problem.readable(train.available)
        self.weights = None
        if settings.direct:
            self.weights = availability_weights(key, problem, train, self.available)
        # As in the predictors' losses.
        weights = utility_class_weights(problem, train.y)
        self.rows = weighted_rows(row_folds(train, settings.folds), train.y, weights, settings.folds)

    @property
    def n_steps(self) -> int:
        """The most acquisitions of an episode."""
        steps = self.settings.steps
        return self.policy.problem.n_actions if steps is None else steps

    def run(self, key: PRNGKeyArray) -> tuple[MLP, ...]:
        """Update in rounds; return the average networks of the round that validation likes best."""
        settings, networks = self.settings, self.policy.networks
        adam = optax.adamw(
            lambda update: settings.learning_rate / (1 + update / settings.decay),
            weight_decay=settings.direct_weight_decay if settings.direct else settings.weight_decay,
        )
        folds = jnp.arange(settings.folds)
        slots = jax.vmap(lambda fold: self._draw(jr.fold_in(key, fold), fold))(folds)
        nothing = jnp.asarray(0)
        start = _Progress(
            networks, adam.init(networks), networks, slots, networks, jnp.asarray(-jnp.inf), nothing, nothing
        )

        def one_round(progress: _Progress) -> _Progress:
            keys = jr.split(jr.fold_in(key, settings.folds + progress.update), settings.updates_per_round)
            progress, _ = jax.lax.scan(lambda p, k: (self._update(k, p, adam), None), progress, keys)
            if settings.direct:
                return progress
            utility = self._validate(progress.average)
            better = utility > progress.best_utility
            # Among equals the newest: its plans are the same, and its values have learned longer.
            return progress._replace(
                best=_where(utility >= progress.best_utility, progress.average, progress.best),
                best_utility=jnp.maximum(utility, progress.best_utility),
                waited=jnp.where(better, 0, progress.waited + 1),
            )

        def goes_on(progress: _Progress) -> Bool[Array, ""]:
            hopeful = (progress.update < settings.exploring) | (progress.waited < settings.patience)
            return (progress.update < settings.updates) & hopeful

        last = jax.lax.while_loop(goes_on, one_round, start)
        # Rows with holes can be followed only to what they have; validation would favour plans of one step.
        return last.average if settings.direct else last.best

    def _update(self, key: PRNGKeyArray, progress: _Progress, adam: Any) -> _Progress:
        """Improve the values in the slots of one fold, then make a step in each."""
        settings = self.settings
        drawing, exploring = jr.split(key)
        fold = progress.update % settings.folds
        predictor = jax.tree.map(lambda leaf: leaf[fold], self.policy.predictors)
        slots: _Slots = jax.tree.map(lambda leaf: leaf[fold], progress.slots)
        now = self._view(predictor, slots.row, slots.acquired)
        legal = self._legal(slots)
        after, targets = self._look_ahead(predictor, progress.average, slots, now)
        weight = jnp.where(legal, 1.0 if self.weights is None else self.weights[slots.row], 0.0)
        weight = weight / jnp.maximum(weight.sum(), _TINY)

        def loss(networks: tuple[MLP, ...]) -> tuple[Float[Array, ""], Float[Array, "slots actions"]]:
            found = [self.policy.values((network,), now, slots.spent) for network in networks]
            errors = [
                (each.gain - target.gain) ** 2
                + _RIGHT_WEIGHT * optax.sigmoid_binary_cross_entropy(each.right, target.right)
                for each, target in zip(found, targets, strict=True)
            ]
            gain = jnp.mean(jnp.stack([each.gain for each in found]), axis=0)
            return jnp.sum(jnp.stack(errors) * weight[None]), gain

        gradient, gain = jax.grad(loss, has_aux=True)(progress.networks)
        change, optimiser = adam.update(gradient, progress.optimiser, progress.networks)
        networks = optax.apply_updates(progress.networks, change)
        # The average forgets the first updates faster.
        rate = jnp.maximum(settings.average_rate, 1 / (progress.update + 1))
        average = polyak(progress.average, networks, rate)
        done = jnp.minimum(progress.update / max(settings.exploring, 1), 1.0)
        action = explore(exploring, gain, legal, 1.0 + done * (settings.last_epsilon - 1.0))
        moved = self._step(slots, after, action, legal)
        over = ~jnp.any(self._legal(moved), axis=1)
        fresh = self._draw(drawing, fold)
        moved = _where(over, fresh, moved)
        return progress._replace(
            networks=networks,
            optimiser=optimiser,
            average=average,
            slots=jax.tree.map(lambda all_, one: all_.at[fold].set(one), progress.slots, moved),
            update=progress.update + 1,
        )

    def _look_ahead(
        self, predictor: MLP, networks: tuple[MLP, ...], slots: _Slots, now: _View
    ) -> tuple[_Slots, list[_Values]]:
        """The slots after each action, and each network's targets ("right" as a probability)."""
        problem = self.policy.problem
        row = jnp.broadcast_to(slots.row[:, None], now.acquired.shape)
        acquired = now.acquired[:, None] | jnp.eye(problem.n_actions, dtype=bool)[None]
        prices = problem.prices(now.acquired)
        after = _Slots(row, acquired, slots.spent[:, None] + prices)
        view = self._view(predictor, row, acquired)
        y = self.train.y[row]
        before = self.utility(now.belief, self.train.y[slots.row])[:, None]
        rise = self.utility(view.belief, y) - before
        if self.settings.money is not None:
            rise = rise - self.settings.money / self.policy.unit * prices
        is_right = (decide(view.belief, problem.decision_costs) == y).astype(rise.dtype)
        # The planner may hope for actions that this row lacks, if it is to learn from holes directly.
        legal = self._legal(after)
        if self.settings.direct:
            legal = self._payable(after) & self.policy.overlap(view.x, acquired)
        goes_on = jnp.any(legal, axis=-1)
        values = [self.policy.values((network,), view, after.spent) for network in networks]
        targets = []
        # What one network likes best, the next one values: the best of noisy values is valued too highly.
        for own, other in zip(values, [*values[1:], values[0]], strict=True):
            best = jnp.argmax(jnp.where(legal, own.gain, LOWEST), axis=-1)[..., None]
            gain, right = (jnp.take_along_axis(each, best, axis=-1)[..., 0] for each in other)
            follows = goes_on & (gain > 0) if self.policy.net else goes_on
            # Nothing can tell more about the class than is uncertain.
            gain = jnp.minimum(gain, self.utility.most_gain(view.belief))
            right = jnp.where(follows, jax.nn.sigmoid(right), is_right)
            targets.append(_Values(rise + jnp.where(follows, gain, 0.0), right))
        return after, targets

    def _view(
        self, predictor: MLP, row: Int[Array, "*batch"], acquired: Bool[Array, "*batch actions"]
    ) -> _View:
        observed = self.policy.problem.observed(acquired)
        x = jnp.where(observed, self.train.x[row], 0.0)
        belief = jax.nn.softmax(predictor(mask_inputs(x, observed)))
        return _View(x, observed, acquired, self.available[row] & ~acquired, belief)

    def _payable(self, slots: _Slots) -> Bool[Array, "*batch actions"]:
        return self.policy.problem.affordable(slots.acquired, slots.spent) & ~slots.acquired

    def _legal(self, slots: _Slots) -> Bool[Array, "*batch actions"]:
        return self._payable(slots) & self.available[slots.row]

    def _step(
        self, slots: _Slots, after: _Slots, action: Int[Array, " slots"], legal: Bool[Array, "slots actions"]
    ) -> _Slots:
        chosen = jax.tree.map(lambda leaf: leaf[jnp.arange(len(action)), action], after)
        stuck = ~jnp.any(legal, axis=1)
        return _where(stuck, slots, chosen)

    def _draw(self, key: PRNGKeyArray, fold: Int[Array, ""]) -> _Slots:
        """New episodes: half of them with the whole budget, half with some actions already acquired."""
        settings, problem = self.settings, self.policy.problem
        n = settings.direct_slots if settings.direct else settings.slots
        choosing, halving, paying, sharing, acquiring = jr.split(key, 5)
        row = self.rows.draw(choosing, fold, n)
        whole, some = jr.uniform(halving, (2, n)) < 0.5
        spent = jnp.where(whole, 0.0, jr.uniform(paying, (n,)) * problem.budget)
        share = jnp.where(some, jr.uniform(sharing, (n,)), 0.0)
        acquired = jr.uniform(acquiring, (n, problem.n_actions)) < share[:, None]
        return _Slots(row, acquired & self.available[row], spent)

    def _validate(self, networks: tuple[MLP, ...]) -> Float[Array, ""]:
        """The mean utility of validation rows after greedy rollouts at several budgets."""
        policy = eqx.tree_at(lambda p: p.networks, self.policy, networks)
        weight = utility_class_weights(policy.problem, self.valid.y)[self.valid.y]
        weight = weight / weight.sum()

        def at_share(share: Float[Array, ""]) -> Float[Array, ""]:
            limited = policy.at(policy.problem.budget * share)
            episodes = acquire(jr.key(0), limited, limited.problem, self.valid, PAPER, self.n_steps)
            acquired = episodes.acquired(policy.problem.n_actions)[-1]
            belief = policy.belief(self.valid.x, policy.problem.observed(acquired))
            utility = self.utility(belief, self.valid.y)
            if self.settings.money is not None:
                utility = utility - self.settings.money / policy.unit * policy.problem.total_cost(acquired)
            return jnp.sum(weight * utility)

        return jnp.mean(jax.lax.map(at_share, jnp.array(_BUDGET_SHARES)))


def _best(
    scores: Float[Array, "rows actions"], legal: Bool[Array, "rows actions"]
) -> Bool[Array, "rows actions"]:
    """The legal action of highest score in each row, if there is one."""
    best = jnp.argmax(jnp.where(legal, scores, LOWEST), axis=1)
    return jax.nn.one_hot(best, legal.shape[1], dtype=bool) & legal


def _calibrated(
    key: PRNGKeyArray, policy: Planner, predictor: Predictor | None, valid: Table, n_steps: int
) -> Planner:
    """Calibrate "right at the end" on validation rows that have everything on their way.

    Each row is followed several times, with the whole budget or a part of it: random actions up to a random
    step, there the action whose outlook is compared with the end (any one, or the best), and then the best
    ones.
    """
    problem = policy.problem
    rows = valid.take(jnp.tile(jnp.arange(len(valid.y)), _COPIES))
    beginning, tossing, paying, stepping = jr.split(key, 4)
    begin = jr.randint(beginning, rows.y.shape, 0, n_steps)
    at_random, whole = jr.bernoulli(tossing, shape=(2, *rows.y.shape))
    spent = jnp.where(whole, 0.0, jr.uniform(paying, rows.y.shape) * problem.budget)

    def see(acquired: Bool[Array, "rows actions"]) -> _View:
        observed = problem.observed(acquired)
        x = jnp.where(observed, rows.x, 0.0)
        return _View(x, observed, acquired, ~acquired, policy.belief(x, observed))

    def step(carry: _Followed, inputs: tuple[Array, PRNGKeyArray]) -> tuple[_Followed, None]:
        place, key = inputs
        legal = problem.affordable(carry.acquired, carry.spent) & ~carry.acquired
        view = see(carry.acquired)
        legal = legal & policy.overlap(view.x, carry.acquired)
        values = policy.values(policy.networks, view, carry.spent)
        explores = (place < begin) | ((place == begin) & at_random)
        taken = _best(jnp.where(explores[:, None], jr.uniform(key, legal.shape), values.gain), legal)
        compared = (place == begin) & jnp.any(taken, axis=1)
        logit = jnp.where(compared, jnp.sum(jnp.where(taken, values.right, 0.0), axis=1), carry.logit)
        price = jnp.sum(jnp.where(taken, problem.prices(carry.acquired), 0.0), axis=1)
        acquired = carry.acquired | taken
        return _Followed(acquired, carry.spent + price, logit, carry.compared | compared), None

    nothing = jnp.zeros((len(rows.y), problem.n_actions), bool)
    start = _Followed(nothing, spent, jnp.zeros(len(rows.y)), jnp.zeros(len(rows.y), bool))
    last, _ = jax.lax.scan(step, start, (jnp.arange(n_steps), jr.split(stepping, n_steps)))
    view = see(last.acquired)
    predicted = view.belief if predictor is None else predictor(view.x, view.observed)
    right = decide(predicted, problem.decision_costs) == rows.y
    has_all = jnp.all(problem.readable(rows.available) | ~last.acquired, axis=1)
    # A row counts once, however often it is followed.
    weight = jnp.where(last.compared & has_all, 1 / _COPIES, 0.0)
    found = _fit_slope_and_shift(last.logit, right, weight)
    return eqx.tree_at(lambda p: p.slope_and_shift, policy, found)


class _Followed(NamedTuple):
    acquired: Bool[Array, "rows actions"]
    spent: Float[Array, " rows"]
    logit: Float[Array, " rows"]  # of the outlook that is compared with the end
    compared: Bool[Array, " rows"]


def _fit_slope_and_shift(
    logit: Float[Array, " rows"], right: Bool[Array, " rows"], weight: Float[Array, " rows"]
) -> Float[Array, " 2"]:
    """Logistic regression by Newton's method; with few rows it stays near no change."""
    unchanged, penalty = jnp.array([1.0, 0.0]), 1.0
    design = jnp.stack([logit, jnp.ones_like(logit)], axis=1)
    outcome = right.astype(jnp.float32)

    def newton(coefficients: Array, _: None) -> tuple[Array, None]:
        chance = jax.nn.sigmoid(design @ coefficients)
        gradient = design.T @ (weight * (chance - outcome)) + penalty * (coefficients - unchanged)
        curvature = (design * (weight * chance * (1 - chance))[:, None]).T @ design + penalty * jnp.eye(2)
        change = jnp.linalg.solve(curvature, gradient)
        return coefficients - jnp.clip(change, -1.0, 1.0), None

    found, _ = jax.lax.scan(newton, unchanged, length=20)
    return found


def _where(condition: Bool[Array, "*rows"], new: Tree, old: Tree) -> Tree:
    """Choose between PyTrees, whole or row by row."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(jnp.expand_dims(condition, range(condition.ndim, new.ndim)), new, old)

    chosen: Tree = jax.tree.map(choose, new, old)
    return chosen
