"""The fixed predictor: class probabilities from any subset of the features, trained once."""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.arrays import on_device
from ascertain._core.effort import Effort
from ascertain._core.networks import MLP, dropout_masks
from ascertain._core.settings import Count, Positive, Share, ShareBelowOne, Sizes
from ascertain._core.training import Batch, Schedule, class_weights, cross_entropy, train
from ascertain.errors import InputError
from ascertain.predictors._registry import register
from ascertain.problem import Problem, Table


@runtime_checkable
class Predictor(Protocol):
    """Maps features and which of them are observed to class probabilities.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def share_of_ones(x, observed):
    ...     p = jnp.where(observed, x, 0.5).mean(axis=1)
    ...     return jnp.stack([1 - p, p], axis=1)
    >>> share_of_ones(jnp.array([[1.0, 1.0]]), jnp.array([[True, False]])).tolist()
    [[0.25, 0.75]]
    >>> isinstance(share_of_ones, Predictor)
    True
    """

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Predict; cells that are not observed are ignored."""


@dataclass(frozen=True)
class Settings:
    """How to train the masked MLP; the defaults are the reference's."""

    epochs: Count = 100
    batch_size: Count = 64
    dropout: ShareBelowOne = 0.2
    least_masked: Share = 0.0  # features are hidden with a probability drawn from this range
    most_masked: Share = 0.9
    hidden: Sizes = (128, 128)
    learning_rate: Positive = 1e-3

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for as many updates as an effort allows."""
        return replace(self, epochs=effort.epochs(effort.predictor_updates, n_rows, self.batch_size))


class MaskedMLP(eqx.Module):
    """An MLP on the observed values and the mask of what is observed."""

    network: MLP

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Class probabilities."""
        return jax.nn.softmax(self.network(_inputs(x, observed)))


@register(
    "mlp",
    summary="The paper's fixed predictor: a network on values and mask.",
    label="MLP",
    settings=Settings,
)
def fit_predictor(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    settings: Settings,
    weights: Float[Array, " classes"] | None = None,
) -> MaskedMLP:
    """Train the masked MLP on random subsets of the features that each row has.

    Every batch hides features with a probability of its own; the checkpoint with the lowest class-weighted
    loss on the validation rows, with all of their observed features, is kept. Can be jitted and vmapped over
    replicates of one shape; `settings` is static.

    Parameters
    ----------
    key
        The random key.
    problem
        The number of features and classes.
    train_table, valid_table
        Complete data, or data with native holes, which are ignored.
    settings
        How to train.
    weights
        The weights of classes; by default the inverse of their frequencies, as in the paper.

    Examples
    --------
    >>> from ascertain import Table, predictors
    >>> from ascertain.datasets import cube
    >>> train, valid, test = cube(100).split(0)
    >>> settings = predictors.get("mlp").settings(epochs=2)  # for a quick look; the default is the paper's
    >>> predictor = fit_predictor(jax.random.key(0), cube(100).problem, train, valid, settings)
    >>> predictor(test.x, test.available).shape  # the probability of each of eight classes
    (20, 8)

    `docs/methods.md` scores a policy with one.
    """
    building, training = jr.split(key)
    sizes = (2 * problem.n_features, *settings.hidden, problem.n_classes)
    if weights is None:
        weights = class_weights(train_table.y, problem.n_classes)

    def loss(network: MLP, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        hiding, choosing, dropping = jr.split(key, 3)
        x, y = train_table.x[batch.rows], train_table.y[batch.rows]
        rate = jr.uniform(choosing, minval=settings.least_masked, maxval=settings.most_masked)
        shown = (jr.uniform(hiding, x.shape) > rate) | problem.known[None]
        observed = train_table.available[batch.rows] & shown
        keep = [
            dropout_masks(k, settings.dropout, (x.shape[0], width))
            for k, width in zip(jr.split(dropping, len(settings.hidden)), settings.hidden, strict=True)
        ]
        logits = network(_inputs(x, observed), keep=keep, dropout=settings.dropout)
        return jnp.sum(batch.weight * cross_entropy(logits, y, weights))

    def validate(network: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        logits = network(_inputs(valid_table.x, valid_table.available))
        return jnp.mean(cross_entropy(logits, valid_table.y, weights))

    schedule = Schedule(batch_size=settings.batch_size, max_rounds=settings.epochs)
    network = MLP(sizes, key=building)
    n_rows = train_table.x.shape[0]
    return MaskedMLP(train(training, network, loss, validate, n_rows, schedule, settings.learning_rate))


class SklearnPredictor:
    """Any scikit-learn classifier that accepts NaN, as a predictor from subsets of the features.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; `fit` fits it in place.
    n_classes
        The number of classes.

    Examples
    --------
    >>> import jax.random as jr
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from ascertain import Table
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> rows = Table(x, y=(x[:, 0] > 0).astype(int))
    >>> predictor = SklearnPredictor(DecisionTreeClassifier(max_depth=3), 2).fit(jr.key(0), rows, copies=1)
    >>> first_only = np.array([[True, False]])
    >>> predictor(np.array([[2.0, 0.0]]), first_only).argmax(axis=1).tolist()
    [1]
    """

    def __init__(self, estimator: Any, n_classes: int):
        if not hasattr(estimator, "predict_proba"):
            raise InputError(f"{type(estimator).__name__} has no predict_proba; use a classifier that has")
        self.estimator = estimator
        self.n_classes = n_classes

    def fit(
        self,
        key: PRNGKeyArray,
        table: Table,
        copies: int = 8,
        *,
        problem: Problem | None = None,
        weights: Float[np.ndarray, " classes"] | None = None,
    ) -> "SklearnPredictor":
        """Fit on the rows and on copies of them with random features hidden.

        Parameters
        ----------
        key
            The random key, to hide features.
        table
            The training rows.
        copies
            The number of copies of each row, each with a random rate of hidden features.
        problem
            Its features that are known from the start are not hidden.
        weights
            The weights of classes, for classifiers whose `fit` takes `sample_weight`.
        """
        rng = np.random.default_rng(np.asarray(jr.key_data(key)).ravel())
        x, available = np.asarray(table.x), np.asarray(table.available)
        hidden = rng.random((copies, *x.shape)) < rng.uniform(0, 0.9, (copies, len(x), 1))
        if problem is not None:
            hidden &= ~np.asarray(problem.known)
        observed = np.concatenate([available[None], available & ~hidden]).reshape(-1, x.shape[1])
        rows = np.where(observed, np.tile(x, (copies + 1, 1)), np.nan)
        y = np.tile(np.asarray(table.y), copies + 1)
        try:
            self.estimator.fit(rows, y, **({} if weights is None else {"sample_weight": weights[y]}))
        except ValueError as error:
            raise InputError(
                f"{type(self.estimator).__name__} cannot be fitted to rows with NaN ({error}); use a "
                "classifier that accepts missing values, such as HistGradientBoostingClassifier"
            ) from error
        return self

    def __call__(self, x: Any, observed: Any) -> Float[Array, "instances classes"]:
        """Class probabilities."""
        return on_device(self.ask(np.asarray(x), np.asarray(observed)))

    def ask(
        self, x: Float[np.ndarray, "*batch features"], observed: Bool[np.ndarray, "*batch features"]
    ) -> Float[np.ndarray, "*batch classes"]:
        """Class probabilities without JAX, of any number of batches at once."""
        rows = np.where(observed, x, np.nan)
        probabilities = np.zeros((rows[..., 0].size, self.n_classes), np.float32)
        probabilities[:, self.estimator.classes_] = self.estimator.predict_proba(
            rows.reshape(-1, x.shape[-1])
        )
        return probabilities.reshape(*rows.shape[:-1], self.n_classes)


class HostPredictor(eqx.Module):
    """A predictor that runs on the host inside compiled programs, which call back with NumPy's arrays."""

    predictor: Any = eqx.field(static=True)
    n_classes: int = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Class probabilities."""
        # A callback must not compute with JAX, which may be waiting for it.
        ask = getattr(self.predictor, "ask", self.predictor)

        def call(*batches: Any) -> Any:
            rows = (np.asarray(each).reshape(-1, each.shape[-1]) for each in batches)
            found = np.asarray(ask(*rows), np.float32)
            return found.reshape(*batches[0].shape[:-1], self.n_classes)

        shape = jax.ShapeDtypeStruct((x.shape[0], self.n_classes), jnp.float32)
        asked: Array = jax.pure_callback(call, shape, x, observed, vmap_method="broadcast_all")
        return asked


def _inputs(
    x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
) -> Float[Array, "instances inputs"]:
    return jnp.concatenate([jnp.where(observed, x, 0.0), observed.astype(x.dtype)], axis=1)
