"""Restorers on disk: what `model.json` says of one, and its structure, which the numbers are filled into."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain._core.networks import MLP
from ascertain.errors import InputError
from ascertain.models.files import HotDeckRecord, PVAERecord, RestorerRecord
from ascertain.problem import Problem, Table
from ascertain.restoration import PVAE, HotDeck, PVAERestorer, Restorer, fit_hotdeck
from ascertain.restoration.pvae import Settings


def restorer_record(restorer: Restorer) -> RestorerRecord:
    """Describe a restorer."""
    if isinstance(restorer, HotDeck):
        return HotDeckRecord(donors=len(restorer.donors.y), neighbours=restorer.neighbours)
    if isinstance(restorer, PVAERestorer) and restorer.see_label:
        model = restorer.model
        return PVAERecord(
            latent=model.decoder.layers[0].weight.shape[0],
            embedding=model.embedding.shape[1],
            point_hidden=model.point_hidden.weight.shape[1],
            encoder=_hidden(model.encoder),
            decoder=_hidden(model.decoder),
            classifier=_hidden(model.classifier),
            noisy=restorer.noise is not None,
        )
    raise InputError(
        f"a {type(restorer).__name__} cannot be saved as the restorer, only a HotDeck or a PVAERestorer that "
        "sees labels; save the model without it, and give it again after loading"
    )


def restorer_like(record: RestorerRecord, problem: Problem) -> Any:
    """Give a restorer with shapes in place of arrays."""
    key, plain = jr.key(0), problem.without_names()
    if isinstance(record, HotDeckRecord):
        donors = abstract_table(plain, record.donors)

        def deck(problem: Problem, donors: Table) -> HotDeck:
            # Which rows are donors was decided in training.
            fitted = fit_hotdeck(key, problem, donors)
            return HotDeck(fitted.problem, fitted.donors, fitted.means, record.neighbours)

        return eqx.filter_eval_shape(deck, plain, donors)
    settings = Settings(**record.model_dump(exclude={"kind", "noisy"}))

    def restorer(key: Any) -> PVAERestorer:
        model = PVAE(problem.n_features, problem.n_classes, settings, key=key)
        return PVAERestorer(model, noise=jnp.zeros(problem.n_features) if record.noisy else None)

    return eqx.filter_eval_shape(restorer, key)


def abstract_table(problem: Problem, n_rows: int) -> Table:
    """Give the shape of a table, which takes no memory however many rows are recorded."""
    one_row = Table(np.zeros((1, problem.n_features)), [0], n_classes=problem.n_classes)
    abstract: Table = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((n_rows, *leaf.shape[1:]), leaf.dtype), one_row
    )
    return abstract


def _hidden(network: MLP) -> tuple[int, ...]:
    return tuple(layer.weight.shape[1] for layer in network.layers[:-1])
