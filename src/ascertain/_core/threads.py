"""Threads of linear algebra on the host, and threads that take turns."""

import threading
from collections import deque
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn


def one_thread() -> AbstractContextManager[None]:
    """Compute small matrix products in one thread: several that wait for each other take far longer."""
    limits: AbstractContextManager[None] = _libraries().limit(limits=1)
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """The libraries that compute in threads; to look for them takes as long as many a small product."""
    return ThreadpoolController()


class Turns:
    """A lock that threads get in the order in which they ask for it.

    With the standard library's locks, a thread that releases one and asks again at once mostly gets it, and
    others may wait for ever.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asking: deque[threading.Lock] = deque()  # the first has its turn

    def __enter__(self) -> None:
        """Wait for a turn."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._asking.append(mine)
            if self._asking[0] is mine:
                return
        mine.acquire()  # until the one before releases it

    def __exit__(self, *error: object) -> None:
        """Let the next one begin."""
        with self._guard:
            self._asking.popleft()
            if self._asking:
                self._asking[0].release()
