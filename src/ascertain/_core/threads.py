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
    """A semaphore that threads get in the order in which they ask for it.

    With the standard library's, a thread that releases it and asks again at once mostly gets it, and others
    may wait for ever.

    Parameters
    ----------
    at_once
        How many threads may have their turn at the same time.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._guard = threading.Lock()
        self._free = at_once
        self._asking: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        """Wait for a turn."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            if self._free:
                self._free -= 1
                return
            self._asking.append(mine)
        mine.acquire()  # until another one passes its turn on

    def __exit__(self, *error: object) -> None:
        """Let the next one begin."""
        with self._guard:
            if self._asking:
                self._asking.popleft().release()
            else:
                self._free += 1
