"""Options for XLA with which tests compile faster.

Quick tests compile programs more than they run them, so these are not optimised there, and XLA's older way to
emit fusions compiles faster: by a seventh of a slow test of the planner. Slow tests are optimised as for
users, but for the fusions. Tests of optimised programs compile these just as XLA does by itself.
"""

import jax

# Gone from JAX 0.11.2, which needs Python 3.12: XLA ends a process that names a flag which it does not know.
_has_older_fusions = jax.__version_info__ < (0, 11)
OLDER_FUSIONS: dict[str, bool | str] = {"xla_cpu_use_fusion_emitters": False} if _has_older_fusions else {}
XLAS_OWN: dict[str, bool | str] = {
    "xla_backend_optimization_level": "3",
    **dict.fromkeys(OLDER_FUSIONS, True),
}
NOT_OPTIMISED: dict[str, bool | str] = {"xla_backend_optimization_level": "0", **OLDER_FUSIONS}
OPTIMISED: dict[str, bool | str] = {"xla_backend_optimization_level": "1", **OLDER_FUSIONS}
