"""MIWAE: a variational autoencoder for incomplete rows, from which codes are drawn by importance resampling.

Mattei and Frellsen (2019), "MIWAE: deep generative modelling and imputation of incomplete data sets". The
encoder sees a row's available features, which they are, and its label; the decoder, a code and the label. The
model is trained on the importance-weighted bound of the likelihood of what is available. To complete a row,
many codes are drawn and one is kept in proportion to its weight: with many codes, a draw from the true
posterior, however rough the encoder is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort, batches_per_epoch
from ascertain._core.networks import MLP
from ascertain._core.padding import padded_rows
from ascertain._core.settings import AtOnce, Positive, Share, Size, Sizes
from ascertain._core.training import Batch, Schedule, train
from ascertain.problem import Problem, Table
from ascertain.restoration._observed_values import ObservedValues, keep_observed_values
from ascertain.restoration._registry import register

_SCHEDULE = Schedule(batch_size=128, batches_per_round=50, max_rounds=120, patience=10, min_delta=0.01)
_LEAST_CODE_DEVIATION = 1e-3
_MOST_VALIDATION_ROWS = 2000
_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Settings:
    """Architecture and training of MIWAE."""

    latent: Size = 10
    hidden: Sizes = (128, 128)  # of the encoder, and of the decoder
    training_codes: AtOnce = 16  # drawn for each row
    codes: AtOnce = 64  # drawn for each row to be completed, of which one is kept
    most_hidden: Share = 0.5  # inputs of a row are hidden with a probability uniform up to this
    label_hidden: Share = 1 / 3  # share of rows that are trained on without their label
    least_deviation: Positive = 0.1  # of the decoder, in standard deviations of a column
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
            stop_from=batches // 10,
        )
        return replace(self, schedule=schedule)


class Normals(NamedTuple):
    """Independent normal distributions."""

    mean: Float[Array, "*shape"]
    deviation: Float[Array, "*shape"]


class Row(NamedTuple):
    """What the model sees of a row, in standard units."""

    x: Float[Array, " features"]
    available: Bool[Array, " features"]
    label: Float[Array, " entries"]  # one per class, and whether the label is given


class MIWAE(eqx.Module):
    """An autoencoder of incomplete rows, conditional on the label where it is given."""

    encoder: MLP
    decoder: MLP
    latent: int = eqx.field(static=True)
    least_deviation: float = eqx.field(static=True)

    def __init__(self, n_features: int, n_classes: int, settings: Settings, *, key: PRNGKeyArray):
        encoding, decoding = jr.split(key)
        entries, latent = n_classes + 1, settings.latent
        self.encoder = MLP((2 * n_features + entries, *settings.hidden, 2 * latent), key=encoding)
        self.decoder = MLP((latent + entries, *settings.hidden, 2 * n_features), key=decoding)
        self.latent = latent
        self.least_deviation = settings.least_deviation

    def encode(self, row: Row) -> Normals:
        """The distribution that codes of a row are drawn from."""
        inputs = [jnp.where(row.available, row.x, 0.0), row.available.astype(row.x.dtype), row.label]
        return _normals(self.encoder(jnp.concatenate(inputs)), _LEAST_CODE_DEVIATION)

    def decode(self, codes: Float[Array, "codes latent"], label: Float[Array, " entries"]) -> Normals:
        """The distribution of the features, given codes and the label."""
        labels = jnp.broadcast_to(label[None], (codes.shape[0], label.shape[0]))
        return _normals(self.decoder(jnp.concatenate([codes, labels], axis=1)), self.least_deviation)

    def weigh(
        self, row: Row, hidden: Bool[Array, " features"], noise: Float[Array, "codes latent"]
    ) -> tuple[Float[Array, " codes"], Normals]:
        """Draw codes with some features hidden from the encoder: their log weights, and what they decode to.

        The mean of the weights estimates the likelihood of the available features, without bias, if the noise
        is standard normal.
        """
        posterior = self.encode(row._replace(available=row.available & ~hidden))
        codes = posterior.mean[None] + posterior.deviation[None] * noise
        decoded = self.decode(codes, row.label)
        error = (row.x[None] - decoded.mean) / decoded.deviation
        densities = -0.5 * (error**2 + math.log(2 * math.pi)) - jnp.log(decoded.deviation)
        likelihood = jnp.sum(jnp.where(row.available[None], densities, 0.0), axis=1)
        prior_to_posterior = 0.5 * (noise**2 - codes**2) + jnp.log(posterior.deviation)[None]
        return likelihood + prior_to_posterior.sum(axis=1), decoded

    def bound(
        self, row: Row, hidden: Bool[Array, " features"], noise: Float[Array, "codes latent"]
    ) -> Float[Array, ""]:
        """The importance-weighted bound of the log likelihood of a row's available features."""
        log_weights, _ = self.weigh(row, hidden, noise)
        return jax.nn.logsumexp(log_weights) - math.log(noise.shape[0])


class MIWAERestorer(eqx.Module):
    """Draws a code for each row by importance resampling, then values, then the nearest observed ones."""

    model: MIWAE
    centre: Float[Array, " features"]
    scale: Float[Array, " features"]
    values: ObservedValues
    n_classes: int = eqx.field(static=True)
    codes: int = eqx.field(static=True)
    see_label: bool = eqx.field(static=True, default=True)

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw values for all cells, row by row in blocks."""
        rows = _rows(_standardised(table, self.centre, self.scale), self.n_classes, self.see_label)
        coding, choosing, varying = jr.split(key, 3)

        def for_row(
            inputs: tuple[PRNGKeyArray, Row, Float[Array, ""], Float[Array, " features"]],
        ) -> Float[Array, " features"]:
            key, row, uniform, noise = inputs
            codes = jr.normal(key, (self.codes, self.model.latent))
            log_weights, decoded = self.model.weigh(row, jnp.zeros_like(row.available), codes)
            below = jnp.cumsum(jax.nn.softmax(log_weights)) < uniform
            chosen = jnp.minimum(below.sum(), self.codes - 1)
            return decoded.mean[chosen] + decoded.deviation[chosen] * noise

        n_rows = table.x.shape[0]
        noise = jr.normal(varying, table.x.shape)
        inputs = (jr.split(coding, n_rows), rows, jr.uniform(choosing, (n_rows,)), noise)
        drawn = _map_rows(for_row, inputs, n_rows)
        return self.values.nearest(self.centre[None] + self.scale[None] * drawn, table)

    def label_free(self) -> "MIWAERestorer":
        """Draw without looking at labels."""
        return replace(self, see_label=False)


def fit_miwae(
    key: PRNGKeyArray, problem: Problem, train_table: Table, valid_table: Table, settings: Settings
) -> MIWAE:
    """Fit the autoencoder to incomplete data in standard units; the validation bound selects the checkpoint.

    Can be jitted and vmapped over replicates of one shape; `settings` is static.

    Parameters
    ----------
    key
        The random key.
    problem
        The number of features and classes.
    train_table, valid_table
        Data with holes.
    settings
        Architecture and training.
    """
    building, choosing, validating, training = jr.split(key, 4)
    valid_rows = _rows(_some_rows(choosing, valid_table), problem.n_classes, see_label=True)
    n_features, shape = problem.n_features, (settings.training_codes, settings.latent)
    # The same noise every time, so that checkpoints differ by their parameters only.
    valid_noise = jr.normal(validating, (valid_rows.x.shape[0], *shape))

    def loss(model: MIWAE, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        hiding, coding = jr.split(key)
        part = train_table.take(batch.rows)
        size = part.x.shape[0]
        # Random numbers take long to compile, so one array serves cells, rates and labels.
        uniform = jr.uniform(hiding, (size, n_features + 2))
        hidden = uniform[:, :n_features] < settings.most_hidden * uniform[:, -2:-1]
        given = uniform[:, -1] >= settings.label_hidden
        rows = Row(part.x, part.available, _labels(part.y, problem.n_classes, given))
        bounds = jax.vmap(model.bound)(rows, hidden, jr.normal(coding, (size, *shape)))
        return -jnp.sum(batch.weight * bounds)

    def validate(model: MIWAE, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        nothing = jnp.zeros((n_features,), bool)

        def bound(row_and_noise: tuple[Row, Float[Array, "codes latent"]]) -> Float[Array, ""]:
            row, noise = row_and_noise
            return model.bound(row, nothing, noise)

        return -jnp.mean(_map_rows(bound, (valid_rows, valid_noise), valid_rows.x.shape[0]))

    model = MIWAE(n_features, problem.n_classes, settings, key=building)
    n_rows = train_table.x.shape[0]
    return train(training, model, loss, validate, n_rows, settings.schedule, settings.learning_rate)


@register(
    "miwae",
    summary="MIWAE: an autoencoder for incomplete rows; codes by importance resampling, observed values.",
    label="MIWAE",
    settings=Settings,
    label_free=True,
    keeps_rows=True,
)
def fit_restorer(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
) -> MIWAERestorer:
    """Fit MIWAE to columns in standard units, and keep training rows to take values from."""
    fitting, keeping = jr.split(key)
    centre, scale = _location(train)
    own, held_out = (_standardised(table, centre, scale) for table in (train, valid))
    model = fit_miwae(fitting, problem, own, held_out, settings)
    values = keep_observed_values(keeping, problem, train)
    return MIWAERestorer(model, centre, scale, values, problem.n_classes, settings.codes)


def _map_rows(f: Callable[[Any], Array], inputs: Any, n_rows: int) -> Array:
    """Apply a function to rows, in blocks; the last block is padded, since another size is compiled anew."""
    if n_rows == 1:  # as in consultations, many times over
        return jax.vmap(f)(inputs)
    rows = padded_rows(n_rows, -(-n_rows // _ROWS_AT_ONCE) * _ROWS_AT_ONCE)
    padded = jax.tree.map(lambda leaf: leaf[rows], inputs)
    mapped: Array = jax.lax.map(f, padded, batch_size=_ROWS_AT_ONCE)
    return mapped[:n_rows]


def _normals(outputs: Float[Array, "*shape"], least: float) -> Normals:
    """Means, and deviations that are bounded from below: else a constant column has an infinite density."""
    mean, raw = jnp.split(outputs, 2, axis=-1)
    return Normals(mean, least + jax.nn.softplus(raw))


def _rows(table: Table, n_classes: int, see_label: bool) -> Row:
    given = jnp.full(table.y.shape, see_label)
    return Row(table.x, table.available, _labels(table.y, n_classes, given))


def _labels(
    y: Int[Array, " instances"], n_classes: int, given: Bool[Array, " instances"]
) -> Float[Array, "instances entries"]:
    """One-hot labels and a column of ones; all zeros where the label is not given."""
    shown = given[:, None].astype(jnp.float32)
    return jnp.concatenate([shown * jax.nn.one_hot(y, n_classes), shown], axis=1)


def _some_rows(key: PRNGKeyArray, table: Table) -> Table:
    """Enough rows to tell checkpoints apart."""
    n_rows = table.x.shape[0]
    if n_rows <= _MOST_VALIDATION_ROWS:
        return table
    return table.take(jr.choice(key, n_rows, (_MOST_VALIDATION_ROWS,), replace=False))


def _location(table: Table) -> tuple[Float[Array, " features"], Float[Array, " features"]]:
    """Mean and standard deviation of the available cells; 0 and 1 where there are none."""
    count = jnp.maximum(table.available.sum(axis=0), 1)
    centre = jnp.where(table.available, table.x, 0.0).sum(axis=0) / count
    squares = jnp.where(table.available, (table.x - centre[None]) ** 2, 0.0).sum(axis=0)
    scale = jnp.sqrt(squares / count)
    return centre, jnp.where(scale > 1e-6, scale, 1.0)


def _standardised(table: Table, centre: Float[Array, " features"], scale: Float[Array, " features"]) -> Table:
    return table.with_cells((table.x - centre[None]) / scale[None], table.available)
