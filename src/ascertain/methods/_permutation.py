"""A fixed order by permutation importance: first what a classifier suffers most without (PT-S of AFABench).

A classifier is trained on all features. The importance of an action is how low the AUROC on validation rows
falls once its values are exchanged for those of random training rows, which keeps their distribution but not
what they say about the row. The order ignores prices and what is learned on the way.

The original exchanges single features. Here the features that an action reveals are exchanged together, with
those of one training row; missing cells are zeros, and stay so.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core import training
from ascertain._core.effort import Effort
from ascertain._core.networks import MLP
from ascertain._core.settings import AtOnce, Count, Positive, Sizes
from ascertain._core.training import Batch, Schedule, class_weights, cross_entropy
from ascertain.methods._registry import State, register
from ascertain.methods._static import Static
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


@dataclass(frozen=True)
class Settings:
    """The classifier and how often values are exchanged; the defaults are AFABench's."""

    hidden: Sizes = (128, 128)
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    epochs: Count = 250
    patience: Count = 4  # epochs without an improvement before training stops
    exchanges: AtOnce = 1  # of each action, over which the AUROC is averaged

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for at most as many updates as an effort allows."""
        epochs = effort.epochs(effort.pretraining_updates, n_rows, self.batch_size)
        return replace(self, epochs=min(self.epochs, epochs))


@register(
    "permutation",
    summary="A fixed order: first what a classifier suffers most without.",
    settings=Settings,
    label="permutation",
    kind="baseline",
    family="static",
    use_when="A quick fixed order, or to compare with the literature.",
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Policy:
    """Train a classifier on all features, and order the actions by how much it depends on them.

    Takes what every method takes (see `Method`). `predictor` is not used: the classifier is another one.
    """
    del predictor, pretrained, state, protocol
    learning, exchanging = jr.split(key)
    train, valid = (table.with_cells(table.x, table.available) for table in (train, valid))
    network = _train_classifier(learning, problem, train, valid, settings)
    sources = problem.readable(train.available)

    def remaining(action: tuple[PRNGKeyArray, Array, Array, Array]) -> Float[Array, ""]:
        key, revealed, has_source, has_target = action

        def once(key: PRNGKeyArray) -> Float[Array, ""]:
            x = exchanged(key, revealed, train.x, has_source, valid.x, has_target)
            return macro_auroc(jax.nn.log_softmax(network(x)), valid.y)

        return jnp.mean(jax.lax.map(once, jr.split(key, settings.exchanges)))

    keys = jr.split(exchanging, problem.n_actions)
    targets = problem.readable(valid.available)
    auroc = jax.lax.map(remaining, (keys, problem.reveals, sources.T, targets.T))
    return Static(jnp.argsort(jnp.argsort(auroc)).astype(jnp.float32))


def _train_classifier(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, settings: Settings
) -> MLP:
    """Train on all features, until the class-weighted loss on validation rows stops falling."""
    building, learning = jr.split(key)
    weights = class_weights(train.y, problem.n_classes)

    def loss(network: MLP, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        del key
        x, y = train.x[batch.rows], train.y[batch.rows]
        return jnp.sum(batch.weight * cross_entropy(network(x), y, weights))

    def validate(network: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        return jnp.mean(cross_entropy(network(valid.x), valid.y, weights))

    network = MLP((problem.n_features, *settings.hidden, problem.n_classes), key=building)
    schedule = Schedule(
        batch_size=settings.batch_size, max_rounds=settings.epochs, patience=settings.patience
    )
    return training.train(
        learning,
        network,
        loss,
        validate,
        train.n_instances,
        schedule,
        settings.learning_rate,
        completions=train.completions,
    )


def exchanged(
    key: PRNGKeyArray,
    revealed: Bool[Array, " features"],
    source: Float[Array, "rows features"],
    has_source: Bool[Array, " rows"],
    target: Float[Array, "others features"],
    has_target: Bool[Array, " others"],
) -> Float[Array, "others features"]:
    """Fill the revealed features of rows that have them with those of random rows that have them, too."""
    drawn = jr.choice(key, len(source), (len(target),), p=has_source / jnp.maximum(has_source.sum(), 1))
    filled = has_target[:, None] & revealed[None] & jnp.any(has_source)
    return jnp.where(filled, source[drawn], target)


def macro_auroc(scores: Float[Array, "rows classes"], y: Int[Array, " rows"]) -> Float[Array, ""]:
    """The mean, over the classes that can be ranked, of the AUROC of each class against the rest."""
    member = jax.nn.one_hot(y, scores.shape[1], dtype=jnp.float32).T

    def one(scores: Float[Array, " rows"], member: Float[Array, " rows"]) -> Float[Array, ""]:
        ordered = jnp.sort(scores)
        below, not_above = (jnp.searchsorted(ordered, scores, side=side) for side in ("left", "right"))
        rank = (below + not_above + 1) / 2  # from 1; those that tie share the mean
        inside, outside = member.sum(), (1 - member).sum()
        return (rank @ member / inside - (inside + 1) / 2) / outside

    count = member.sum(axis=1)
    defined = (count > 0) & (count < len(y))
    found = jnp.where(defined, jax.vmap(one)(scores.T, member), 0.0)
    return found.sum() / jnp.maximum(defined.sum(), 1)
