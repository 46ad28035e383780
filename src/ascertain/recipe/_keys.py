"""Random keys, derived from what is computed: never from its place in a loop, nor from the data."""

import hashlib
import json

import numpy as np
from jaxtyping import UInt32


def key_data(
    stage: str,
    *,
    seed: int,
    dataset: str = "",
    split: int = 0,
    treatment: str = "",
    restorer: str = "",
    mechanism: str = "",
    rate: float = 0.0,
    method: str = "",
    state: str = "",
) -> UInt32[np.ndarray, " 2"]:
    """The data of a random key, for `jax.random.wrap_key_data`; leave out what does not apply to a stage.

    The key of a mask does not depend on the rate: what is missing at a rate is missing at higher ones.
    """
    shown = "" if stage == "mask" else repr(rate)
    name = json.dumps([seed, stage, dataset, split, treatment, restorer, mechanism, shown, method, state])
    return np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], np.uint32)
