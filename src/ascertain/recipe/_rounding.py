"""What the rounding of compiled programs depends on: the number of threads, and options of XLA and JAX."""

import os
import re
from pathlib import Path

import jax

_THREADS = ("PJRT_NPROC", "NPROC")  # the first that is a number counts
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,10})")
# XLA knows quotes only where a value begins; what is not closed ends with the text.
_FLAG = re.compile(r"""--([\w-]+)(?:="((?:[^"\\]|\\.)*)"?|='([^']*)'?|=?(\S*))""", re.DOTALL)
_SPACE = " \t\n\v\f\r"
_LARGEST = 2**31  # of a 32-bit integer

# Settings of JAX that change numbers, other than flags of XLA.
_SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_most_optimizations",
    "jax_enable_x64",
    "jax_high_dynamic_range_gumbel",
    "jax_random_seed_offset",
    "jax_softmax_custom_jvp",
    "jax_threefry_partitionable",
)
_HARMLESS = {"dump", "log", "logging", "profile"}  # words in the names of flags that change no number


def usable_cores() -> int | None:
    """The number of threads that compiled programs share on processor cores; None on other devices.

    XLA splits sums by it, so results differ in rounding. It has a thread for each core that the process may
    run on, or as many as the variable PJRT_NPROC says, or else NPROC; and at least one for each device. The
    runtime cannot be asked for it, so this reads the variables as XLA does (`DefaultThreadPoolSize`).
    """
    if jax.default_backend() != "cpu":
        return None
    asked = [number for name in _THREADS if (number := _number(os.environ.get(name, ""))) is not None]
    return max(asked[0] if asked else _cores(), jax.local_device_count())


def numeric_options() -> str:
    """The settings of JAX and flags of XLA that change numbers, sorted, with spaces between them."""
    settings = {name: str(jax.config.values.get(name)) for name in _SETTINGS}
    flags = {name: value for name, value in _flags().items() if not _HARMLESS & set(name.split("_"))}
    return " ".join(f"{name}={value}" for name, value in sorted((settings | flags).items()))


def _number(text: str) -> int | None:
    """The integer that XLA reads in a variable; None if it reads none, and goes on to the next."""
    found = _NUMBER.fullmatch(text.strip(_SPACE))
    number = _LARGEST if found is None else int(found[1] + found[2])
    return number if -_LARGEST <= number < _LARGEST else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _flags() -> dict[str, str]:
    """The flags in XLA_FLAGS, or in the file that it names; the last one of a name counts."""
    text = os.environ.get("XLA_FLAGS", "").strip()
    if text and not text.startswith("--"):
        text = Path(text).read_text()  # there is one, or XLA would have ended the process
    return {found[1]: found[2] or found[3] or found[4] or "true" for found in _FLAG.finditer(text)}
