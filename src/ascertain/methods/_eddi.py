"""EDDI: greedy by the information about the label that a Partial VAE expects of each action.

After Ma, Tschiatschek, Palla, Hernandez-Lobato, Nowozin and Zhang (2019), efficient dynamic discovery of
high-value information. Nothing is trained but the VAE. For each row, latent codes are drawn given what is
observed, and each is decoded: so a draw has a value for every feature that an action might reveal, features
of a group together. What the values would do to the belief about the label is averaged over the draws.

The reference divides by prices, which the original does without, and reads the predictions off the fixed
predictor.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.settings import AtOnce
from ascertain.errors import InputError
from ascertain.methods._greedy import positive_prices
from ascertain.methods._odin import point_parts
from ascertain.methods._registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import _pvae as pvae

_LOG_GUARD = 1e-6
_LARGEST_LOG_VARIANCE = 20.0
_ROWS_AT_ONCE = 8  # rows that are scored together: each needs draws x actions predictions


@dataclass(frozen=True)
class Settings:
    """The search; the defaults are the reference's.

    `estimator` is how the information is measured. `prediction`: by how far the fixed predictor's class
    probabilities are expected to move. `classifier`: the same by the VAE's own classifier. `latent`: by how
    far the latent code's posterior moves, less how far it would move were the label known, as in the paper.
    """

    samples: AtOnce = 128
    estimator: Literal["prediction", "classifier", "latent"] = "prediction"
    vae: pvae.Settings = field(default_factory=pvae.Settings)

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Shorten the VAE's training."""
        return replace(self, vae=self.vae.shortened(effort, n_rows))


class EDDI(Policy):
    """The policy: the VAE, and the predictor if that is what measures information."""

    vae: pvae.PVAE
    predictor: Predictor | None
    problem: Problem
    threshold: Float[Array, ""]  # stop once no action promises this much information per price
    samples: int = eqx.field(static=True)
    estimator: str = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the expected information per price."""
        del available

        # All rows share their random numbers, so that a row's scores do not depend on the rows beside it.
        def one(row: tuple[Array, Array]) -> Float[Array, " actions"]:
            return self.information(key, *row)

        # A GPU may round products to fewer digits, and actions differ by little.
        with jax.default_matmul_precision("highest"):
            information = jax.lax.map(one, (x, observed), batch_size=_ROWS_AT_ONCE)
        prices = positive_prices(self.problem, acquired)
        # An estimate below zero must not be made better by a high price.
        scores = jnp.where(information > 0, information / prices, information * prices)
        return jnp.concatenate([jnp.full((x.shape[0], 1), self.threshold), scores], axis=1)

    def stopping_at(self, threshold: float) -> "EDDI":
        """The policy for soft budgets: it stops once no action promises this much information per price."""
        return eqx.tree_at(lambda p: p.threshold, self, jnp.asarray(threshold, jnp.float32))

    def information(
        self, key: PRNGKeyArray, x: Float[Array, " features"], observed: Bool[Array, " features"]
    ) -> Float[Array, " actions"]:
        """The expected information of each action about one row's label, in nats."""
        vae, (coding, labelling) = self.vae, jr.split(key)
        known = jnp.where(observed[:, None], point_parts(vae, x[None])[0], 0.0).sum(axis=0)[None, None]
        now = posterior(vae, known[0])
        repeated = pvae.Posterior(*(jnp.repeat(leaf, self.samples, axis=0) for leaf in now))
        code = pvae.draw_code(coding, repeated)
        drawn = jnp.where(observed[None], x[None], vae.decoder(code))
        if self.predictor is not None:
            return self._prediction_moves(self.predictor, x, observed, drawn)
        new = (self.problem.reveals & ~observed[None]).astype(jnp.float32)
        more = known + jnp.einsum("af,sfp->sap", new, point_parts(vae, drawn))
        if self.estimator == "classifier":
            before, after = (
                jax.nn.softmax(vae.classifier(posterior(vae, each).mean)) for each in (known, more)
            )
            return jnp.mean(divergence(after, before), axis=0)
        label = label_parts(vae)[jr.categorical(labelling, vae.classifier(code))][:, None]
        moves = gaussian_divergence(posterior(vae, more), posterior(vae, known))
        moves_anyway = gaussian_divergence(posterior(vae, more + label), posterior(vae, known + label))
        return jnp.mean(moves - moves_anyway, axis=0)

    def _prediction_moves(
        self,
        predictor: Predictor,
        x: Float[Array, " features"],
        observed: Bool[Array, " features"],
        drawn: Float[Array, "samples features"],
    ) -> Float[Array, " actions"]:
        """How far each action is expected to move the prediction."""
        seen = self.problem.reveals | observed[None]
        shape = (len(drawn), *seen.shape)
        values, masks = (
            jnp.broadcast_to(each, shape).reshape(-1, shape[-1]) for each in (drawn[:, None], seen[None])
        )
        after = predictor(values, masks).reshape(*shape[:2], -1)
        before = predictor(x[None], observed[None])
        return jnp.mean(divergence(after, before[None]), axis=0)


def posterior(vae: pvae.PVAE, pooled: Float[Array, "*batch pooled"]) -> pvae.Posterior:
    """The belief about the latent code, from the sum over what is visible."""
    return pvae.Posterior(*jnp.split(vae.encoder(pooled), 2, axis=-1))


def label_parts(vae: pvae.PVAE) -> Float[Array, "classes pooled"]:
    """What each label adds to the encoder's input, summed over its one-hot entries."""
    n_features = vae.embedding.shape[0] - vae.n_classes
    points = vae.points(jnp.zeros((vae.n_classes, n_features)), jnp.arange(vae.n_classes))
    return point_parts(vae, points)[:, n_features:].sum(axis=1)


def divergence(
    p: Float[Array, "*#batch classes"], q: Float[Array, "*#batch classes"]
) -> Float[Array, "*#batch"]:
    """The Kullback-Leibler divergence of class probabilities from others, in nats."""
    return jnp.sum(p * (jnp.log(p + _LOG_GUARD) - jnp.log(q + _LOG_GUARD)), axis=-1)


def gaussian_divergence(p: pvae.Posterior, q: pvae.Posterior) -> Float[Array, "..."]:
    """The Kullback-Leibler divergence of independent Gaussians from others, in nats."""
    of_p, of_q = (
        jnp.clip(each.log_variance, -_LARGEST_LOG_VARIANCE, _LARGEST_LOG_VARIANCE) for each in (p, q)
    )
    squares = (p.mean - q.mean) ** 2 * jnp.exp(-of_q)
    return 0.5 * jnp.sum(of_q - of_p + jnp.exp(of_p - of_q) + squares - 1, axis=-1)


def pretrain(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    protocol: Protocol = PAPER,
) -> pvae.PVAE:
    """Fit the Partial VAE, as ODIN and the restorer of the same table do."""
    del protocol
    return pvae.fit_pvae(key, problem, train, valid, settings.vae)


@register(
    "eddi",
    summary="Greedy by the information about the label that a Partial VAE expects, per cost.",
    settings=Settings,
    label="EDDI",
    kind="myopic",
    family="greedy",
    use_when="A Partial VAE restores the table anyway: nothing more is trained, but choices take longer.",
    stops="at a threshold that you give (thresholds=)",
    costs={"gpu": Cost(0.5, 0.1, 10, 100e6), "cpu": Cost(0.0, 10.0, 5, 100e6)},
    pretrain=pretrain,
    shares=pvae.MODEL,
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: pvae.PVAE | None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> EDDI:
    """Train the VAE, unless given.

    Takes what every method takes (see `Method`); the `predictor` measures information, unless the settings
    name another estimator.
    """
    del state
    by_prediction = settings.estimator == "prediction"
    if by_prediction and predictor is None:
        raise InputError(
            "EDDI asks the fixed predictor what an action would tell; give it with predictor=, or set "
            "estimator='latent'"
        )
    if pretrained is None:
        pretrained = pretrain(key, problem, train, valid, settings=settings, protocol=protocol)
    return EDDI(
        vae=pretrained,
        predictor=predictor if by_prediction else None,
        problem=problem.without_names(),
        threshold=jnp.asarray(-jnp.inf),
        samples=settings.samples,
        estimator=settings.estimator,
    )
