"""ODIN, model-based: ODIN with rows of the Partial VAE's own making beside those of the training table.

After Zannone, Hernandez-Lobato, Zhang and Palla (2019), in the reference's reading: before training, as many
rows as the table has are drawn from the VAE. A latent code is drawn from the prior; the features are what the
decoder makes of it, without noise, and the label is drawn from (or is the likeliest of) the class
probabilities that the VAE's classifier gives to it. These rows have no holes, whatever the table lacks.
"""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray

from ascertain._core.settings import Amount
from ascertain.methods import _odin as odin
from ascertain.methods._registry import Cost, State, register
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import _pvae as pvae


@dataclass(frozen=True)
class Settings(odin.Settings):
    """Training of ODIN, and what is generated for it."""

    generated: Amount = 1.0  # rows per row of the training table
    generated_labels: Literal["drawn", "likeliest"] = "drawn"  # the reference: likeliest


@register(
    "odin_mb",
    summary="ODIN that is also trained on rows drawn from its Partial VAE.",
    settings=Settings,
    label="ODIN-MB",
    kind="intermediate",
    family="reinforcement learning",
    use_when="To compare with the literature; rows that the model makes have not helped on our data.",
    stops="if it is fitted with a cost_weight",
    costs={"gpu": Cost(0.7, 0.02, 10, 6e6), "cpu": Cost(0.0, 6.0, 7, 6e6)},
    pretrain=odin.pretrain,
    shares=pvae.MODEL,
    states=("s", "sm"),
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
) -> odin.ODIN:
    """Train the VAE (unless given), draw rows from it, and train ODIN on both.

    Takes what every method takes (see `Method`). `predictor` is not used: ODIN is rewarded by the VAE's own
    classifier.
    """
    pretraining, generating, training = jr.split(key, 3)
    if pretrained is None:
        pretrained = odin.pretrain(pretraining, problem, train, valid, settings=settings, protocol=protocol)
    return odin.fit(
        training,
        problem,
        with_generated(generating, pretrained, train, settings),
        valid,
        predictor=predictor,
        pretrained=pretrained,
        settings=settings,
        state=state,
        protocol=protocol,
    )


def with_generated(key: PRNGKeyArray, vae: pvae.PVAE, table: Table, settings: Settings) -> Table:
    """The table, then complete rows drawn from the VAE."""
    coding, labelling = jr.split(key)
    n_rows = int(settings.generated * len(table.y))
    code = jr.normal(coding, (n_rows, vae.decoder.layers[0].weight.shape[0]))
    logits = vae.classifier(code)
    drawn = settings.generated_labels == "drawn"
    y = jr.categorical(labelling, logits) if drawn else jnp.argmax(logits, axis=1)
    x = vae.decoder(code)
    longer: Table = eqx.tree_at(
        lambda t: (t.x, t.y, t.available, t.ids),
        table,
        (
            jnp.concatenate([table.x, x]),
            jnp.concatenate([table.y, y.astype(table.y.dtype)]),
            jnp.concatenate([table.available, jnp.ones(x.shape, bool)]),
            jnp.concatenate([table.ids, jnp.max(table.ids) + 1 + jnp.arange(n_rows)]),
        ),
    )
    return longer.counted(completions=1)
