"""OL's replay buffer: stores row numbers, packed states, choices, rewards and ends, but never features."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from ascertain._core.hashing import mix, shuffled
from ascertain.acquisition import Frames


class Sample(NamedTuple):
    """Slices of episodes to learn from."""

    frames: Frames
    reward: Float[Array, "steps sampled"]
    weight: Float[Array, " sampled"]  # 0 beyond those there were; sums to 1


class Replay(NamedTuple):
    """The last slices of episodes; a slice is what one slot did in one batch."""

    row: Int[Array, "slices steps"]
    packed: UInt32[Array, "slices steps words"]  # what was acquired before, a bit per action
    choice: Int[Array, "slices steps"]
    reward: Float[Array, "slices steps"]
    done: Bool[Array, "slices steps"]

    @classmethod
    def empty(cls, n_batches: int, n_slots: int, n_steps: int, n_actions: int) -> "Replay":
        """A buffer with room for a number of batches."""
        shape = (n_batches * n_slots, n_steps)
        return cls(
            row=jnp.zeros(shape, jnp.int32),
            packed=jnp.zeros((*shape, -(-n_actions // 32)), jnp.uint32),
            choice=jnp.zeros(shape, jnp.int16),
            reward=jnp.zeros(shape),
            done=jnp.zeros(shape, bool),
        )

    def push(self, number: Int[Array, ""], frames: Frames, reward: Float[Array, "steps slots"]) -> "Replay":
        """Overwrite the oldest batch by batch `number`."""
        packed = pack_bits(frames.acquired).swapaxes(0, 1)
        new = Replay(frames.row.T, packed, frames.choice.T, reward.T, frames.done.T)
        n_slots = frames.row.shape[1]
        start = number % (self.row.shape[0] // n_slots) * n_slots
        written: Replay = jax.tree.map(
            lambda kept, leaf: jax.lax.dynamic_update_slice_in_dim(kept, leaf.astype(kept.dtype), start, 0),
            self,
            new,
        )
        return written

    def sample(
        self, seed: UInt32[Array, ""], number: Int[Array, ""], wanted: int, n_slots: int, n_actions: int
    ) -> Sample:
        """Draw slices without replacement after batch `number` was pushed.

        While the buffer grows, every batch draws from a new random order. Once it is full, an order is used
        up before the next one begins; its last sample may be short.
        """
        capacity = self.row.shape[0]
        n_batches = capacity // n_slots
        size = jnp.minimum(number + 1, n_batches) * n_slots
        since_full = jnp.maximum(number - (n_batches - 1), 0)
        per_order = -(-capacity // wanted)
        order = jnp.minimum(number, n_batches - 1) + since_full // per_order
        place = since_full % per_order * wanted + jnp.arange(wanted)
        exists = place < size
        index = shuffled(mix(seed + order.astype(jnp.uint32)), place % size, size)
        taken: Replay = jax.tree.map(lambda leaf: leaf[index], self)
        frames = Frames(
            row=taken.row.T,
            acquired=unpack_bits(taken.packed, n_actions).swapaxes(0, 1),
            choice=taken.choice.T.astype(jnp.int32),
            done=taken.done.T,
        )
        return Sample(frames, taken.reward.T, exists / exists.sum())


def pack_bits(mask: Bool[Array, "*batch bits"]) -> UInt32[Array, "*batch words"]:
    """Pack flags into 32-bit words."""
    n_words = -(-mask.shape[-1] // 32)
    padding = [(0, 0)] * (mask.ndim - 1) + [(0, 32 * n_words - mask.shape[-1])]
    bits = jnp.pad(mask, padding).reshape(*mask.shape[:-1], n_words, 32).astype(jnp.uint32)
    places = jnp.expand_dims(jnp.arange(32, dtype=jnp.uint32), range(bits.ndim - 1))
    return jnp.sum(bits << places, axis=-1, dtype=jnp.uint32)


def unpack_bits(packed: UInt32[Array, "*batch words"], n_bits: int) -> Bool[Array, "*batch bits"]:
    """The flags that were packed."""
    places = jnp.expand_dims(jnp.arange(32, dtype=jnp.uint32), range(packed.ndim))
    bits = (packed[..., None] >> places & 1) == 1
    return bits.reshape(*packed.shape[:-1], -1)[..., :n_bits]
