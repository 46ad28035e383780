"""The paper's restorer: a Partial VAE that sees a row's available features and its label (appendix B.1).

A row is a set of points, one per feature and one per label entry. The encoder sums a network over the visible
points, so that any subset can be encoded.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort, batches_per_epoch
from ascertain._core.kernels import sum_of_relus
from ascertain._core.networks import MLP, Linear
from ascertain._core.settings import Amount, Positive, Share, Size, Sizes, SomeSizes
from ascertain._core.training import Batch, Schedule, Training, class_weights, cross_entropy
from ascertain.problem import Problem, Table
from ascertain.registry import SharedModel
from ascertain.restoration._registry import register

_LARGEST_LOG_VARIANCE = 20.0  # when sampling; the KL term is not clamped
_SCHEDULE = Schedule(
    batch_size=128,
    batches_per_round=100,
    max_rounds=10_000,
    track_from=500,
    stop_from=1000,
    patience=50,
    min_delta=0.1,
)


@dataclass(frozen=True)
class Settings:
    """Architecture and training of the PVAE; the defaults are the reference's."""

    latent: Size = 20
    embedding: Size = 20
    point_hidden: Size = 500
    encoder: SomeSizes = (20, 500, 200)
    decoder: Sizes = (500, 200)
    classifier: Sizes = (32, 32)
    kl_weight: Amount = 0.1
    most_masked: Share = 0.9  # a batch hides entries with a probability uniform up to this
    learning_rate: Positive = 1e-3
    schedule: Schedule = _SCHEDULE

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for as long as an effort allows."""
        per_epoch = batches_per_epoch(n_rows, self.schedule.batch_size)
        batches = min(effort.restorer_updates, effort.most_epochs * per_epoch)
        per_round = max(1, min(100, batches // 10))
        schedule = replace(
            self.schedule,
            batches_per_round=per_round,
            max_rounds=math.ceil(batches / per_round),
            track_from=0,
            stop_from=batches // 4,
            patience=10,
        )
        return replace(self, schedule=schedule)


class Posterior(NamedTuple):
    """The encoder's output: a Gaussian over latent codes."""

    mean: Float[Array, "instances latent"]
    log_variance: Float[Array, "instances latent"]


class PVAE(eqx.Module):
    """A label-conditioned Partial VAE.

    Examples
    --------
    `fit_pvae` makes one; `examples/score_restorers.py` scores its draws.
    """

    embedding: Float[Array, "points embedding"]
    point_hidden: Linear
    point_out: Linear
    encoder: MLP
    decoder: MLP
    classifier: MLP
    n_classes: int = eqx.field(static=True)

    def __init__(self, n_features: int, n_classes: int, settings: Settings, *, key: PRNGKeyArray):
        keys = jr.split(key, 6)
        n_points, size, latent = n_features + n_classes, settings.embedding, settings.latent
        self.embedding = jr.normal(keys[0], (n_points, size))
        self.point_hidden = Linear(size, settings.point_hidden, key=keys[1])
        self.point_out = Linear(settings.point_hidden, settings.encoder[0], key=keys[2])
        self.encoder = MLP((settings.encoder[0], *settings.encoder, 2 * latent), key=keys[3])
        self.decoder = MLP((latent, *settings.decoder, n_features), key=keys[4])
        self.classifier = MLP((latent, *settings.classifier, n_classes), key=keys[5])
        self.n_classes = n_classes

    def encode(
        self, points: Float[Array, "instances points"], visible: Bool[Array, "instances points"]
    ) -> Posterior:
        """Encode the visible points of each row.

        The point network's output layer is linear, so it is applied once, to the sum over the points; its
        input layer acts on x_j e_j, so W e_j is computed once for all rows.
        """
        seen = visible.astype(points.dtype)
        directions = self.embedding @ self.point_hidden.weight
        hidden = sum_of_relus(jnp.where(visible, points, 0.0), seen, directions, self.point_hidden.bias)
        pooled = hidden @ self.point_out.weight + seen.sum(axis=1, keepdims=True) * self.point_out.bias[None]
        mean, log_variance = jnp.split(self.encoder(pooled), 2, axis=1)
        return Posterior(mean, log_variance)

    def points(
        self, x: Float[Array, "instances features"], y: Int[Array, " instances"]
    ) -> Float[Array, "instances points"]:
        """Put features and the one-hot label side by side."""
        return jnp.concatenate([x, jax.nn.one_hot(y, self.n_classes)], axis=1)

    def reconstruct(
        self, key: PRNGKeyArray, table: Table, *, see_label: bool = True, sample: bool = True
    ) -> Float[Array, "instances features"]:
        """Decode one latent code per row, drawn from (or at the mean of) its posterior."""
        shown = jnp.full((table.x.shape[0], self.n_classes), see_label)
        visible = jnp.concatenate([table.available, shown], axis=1)
        posterior = self.encode(self.points(table.x, table.y), visible)
        return self.decoder(draw_code(key, posterior) if sample else posterior.mean)


def fit_pvae(
    key: PRNGKeyArray, problem: Problem, train_table: Table, valid_table: Table, settings: Settings
) -> PVAE:
    """Fit the PVAE to incomplete data; model selection sees the validation rows' available cells only.

    Can be jitted and vmapped over replicates of one shape; `settings` is static.

    Parameters
    ----------
    key
        The random key.
    problem
        The number of features and classes.
    train_table, valid_table
        Data with holes (or without, for the oracle variant).
    settings
        Architecture and training.

    Examples
    --------
    `examples/score_restorers.py` fits one and scores its draws beside those of other restorers.
    """
    return pvae_training(key, problem, train_table, valid_table, settings).run()


def pvae_training(
    key: PRNGKeyArray, problem: Problem, train_table: Table, valid_table: Table, settings: Settings
) -> Training[PVAE]:
    """The training of `fit_pvae`, which can be interrupted."""
    building, training = jr.split(key)
    weights = class_weights(train_table.y, problem.n_classes)

    def loss(model: PVAE, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        choosing, hiding, drawing = jr.split(key, 3)
        part = train_table.take(batch.rows)
        hidden_rate = settings.most_masked * jr.uniform(choosing)
        kept = jr.uniform(hiding, (part.x.shape[0], problem.n_features + problem.n_classes)) > hidden_rate
        losses = _row_losses(model, drawing, part, kept, weights, settings.kl_weight, classify_mean=False)
        return jnp.sum(batch.weight * losses)

    def validate(model: PVAE, key: PRNGKeyArray) -> Float[Array, ""]:
        everything = jnp.ones((valid_table.x.shape[0], problem.n_features + problem.n_classes), bool)
        losses = _row_losses(
            model, key, valid_table, everything, weights, settings.kl_weight, classify_mean=True
        )
        return jnp.mean(losses)

    model = _bound_embedding(PVAE(problem.n_features, problem.n_classes, settings, key=building))
    return Training(
        training,
        model,
        loss,
        validate,
        train_table.n_instances,
        settings.schedule,
        settings.learning_rate,
        project=_bound_embedding,
        completions=train_table.completions,
    )


class PVAERestorer(eqx.Module):
    """Restores with one draw of the latent code per row; in the paper the decoder's mean, without noise.

    `see_label=False` is the label-free variant; a model fitted on complete data makes the oracle variant.
    With `noise` (see `observation_noise`) values vary about the decoder's mean as much as observed ones do.

    Examples
    --------
    `examples/score_restorers.py` makes one of a fitted Partial VAE, and scores its draws.
    """

    model: PVAE
    see_label: bool = eqx.field(static=True, default=True)
    noise: Float[Array, " features"] | None = None  # standard deviations

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Decode one latent code per row."""
        if self.noise is None:
            return self.model.reconstruct(key, table, see_label=self.see_label)
        decoding, varying = jr.split(key)
        decoded = self.model.reconstruct(decoding, table, see_label=self.see_label)
        return decoded + self.noise[None] * jr.normal(varying, decoded.shape)

    def label_free(self) -> "PVAERestorer":
        """Draw without looking at labels."""
        return PVAERestorer(self.model, see_label=False, noise=self.noise)


MODEL = SharedModel("vae", "pvae", fit_pvae, Settings, pvae_training)


@register(
    "pvae",
    summary="Partial VAE, the paper's restorer: one latent code per row, decoded without noise.",
    label="PVAE",
    settings=Settings,
    label_free=True,
    shares=MODEL,
)
def fit_restorer(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    pretrained: PVAE | None = None,
) -> PVAERestorer:
    """Fit a PVAE, unless it is given."""
    model = fit_pvae(key, problem, train, valid, settings) if pretrained is None else pretrained
    return PVAERestorer(model)


@register(
    "pvae_noise",
    summary="Partial VAE whose draws vary about the decoder's mean as much as values do.",
    label="PVAE with noise",
    settings=Settings,
    label_free=True,
    shares=MODEL,
)
def fit_noisy_restorer(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    pretrained: PVAE | None = None,
) -> PVAERestorer:
    """Fit a PVAE, unless it is given, and the noise of its draws on validation rows.

    The paper draws without noise. Then restored features tell the class too well, since they were decoded
    from it, and several completions of a row all look alike.
    """
    fitting, comparing = jr.split(key)
    model = fit_pvae(fitting, problem, train, valid, settings) if pretrained is None else pretrained
    return PVAERestorer(model, noise=observation_noise(comparing, problem, model, valid))


def observation_noise(
    key: PRNGKeyArray, problem: Problem, model: PVAE, table: Table
) -> Float[Array, " features"]:
    """The noise with which draws vary about their mean as much as true values do, by feature.

    Half of the actions of a table that the model was not fitted on are hidden, and compared with what is
    decoded. Can be jitted.
    """
    hiding, *drawing = jr.split(key, 3)
    shown = problem.observed(jr.bernoulli(hiding, 0.5, (table.x.shape[0], problem.n_actions)))
    seen = table.with_cells(table.x, table.available & shown)
    compared = table.available & ~shown
    one, other = (model.reconstruct(k, seen, see_label=False) for k in drawing)
    # Let v be the variance of draws, and r that of values about the mean of draws. On average, the squared
    # error of a draw is v + r, and the squared difference of two draws 2 v; so this is r - v.
    squares = ((one - table.x) ** 2 + (other - table.x) ** 2) / 2 - (one - other) ** 2
    count = jnp.maximum(compared.sum(axis=0), 1)
    variance = jnp.sum(jnp.where(compared, squares, 0.0), axis=0) / count
    return jnp.sqrt(jnp.maximum(variance, 0.0))


def _row_losses(
    model: PVAE,
    key: PRNGKeyArray,
    table: Table,
    kept: Bool[Array, "instances points"],
    weights: Float[Array, " classes"],
    kl_weight: float,
    *,
    classify_mean: bool,
) -> Float[Array, " instances"]:
    """Loss of each row: reconstruction of its available features, visible or not, KL, classification."""
    labels = jnp.ones((table.x.shape[0], model.n_classes), bool)
    visible = kept & jnp.concatenate([table.available, labels], axis=1)
    posterior = model.encode(model.points(table.x, table.y), visible)
    code = draw_code(key, posterior)
    squares = jnp.where(table.available, (model.decoder(code) - table.x) ** 2, 0.0).sum(axis=1)
    mean, log_variance = posterior
    divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), axis=1)
    logits = model.classifier(mean if classify_mean else code)
    return squares + kl_weight * divergence + cross_entropy(logits, table.y, weights)


def draw_code(key: PRNGKeyArray, posterior: Posterior) -> Float[Array, "instances latent"]:
    """One latent code per row, drawn from its posterior."""
    deviation = jnp.exp(0.5 * jnp.minimum(posterior.log_variance, _LARGEST_LOG_VARIANCE))
    return posterior.mean + deviation * jr.normal(key, posterior.mean.shape)


def _bound_embedding(model: PVAE) -> PVAE:
    """Rescale embeddings that are longer than 1 to length 1."""
    length = jnp.linalg.norm(model.embedding, axis=1, keepdims=True)
    bounded: PVAE = eqx.tree_at(lambda m: m.embedding, model, model.embedding / jnp.maximum(length, 1.0))
    return bounded
