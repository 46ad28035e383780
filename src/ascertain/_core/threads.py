"""Threads of linear algebra on the host."""

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn


def one_thread() -> AbstractContextManager[None]:
    """Compute small matrix products in one thread: several that wait for each other take far longer."""
    limits: AbstractContextManager[None] = threadpool_limits(1)
    return limits
