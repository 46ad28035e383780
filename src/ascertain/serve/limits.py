"""How much the server takes on: from whom, how large, how many at a time, and how often."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MOST_CLIENTS = 10_000  # whose rates are remembered
_LEAST_BURST = 10.0


@dataclass(frozen=True)
class Limits:
    """What is refused.

    Parameters
    ----------
    hosts
        The names that the server answers to. Any other `Host` is refused: a page elsewhere could point a
        name of its own at this machine (DNS rebinding), and then read the answers.
    any_address
        Whether it also answers to every address in digits, which no name stands behind.
    rate
        Requests per second and client; None: any number.
    body
        The largest request, in bytes.
    patience
        How long a request may take to arrive, in seconds.
    workers
        How many cases are computed at a time.
    waiting
        How many more may wait for that.
    """

    hosts: tuple[str, ...] = LOOPBACK
    any_address: bool = False
    rate: float | None = None
    body: int = 2**20
    patience: float = 10.0
    workers: int = 2
    waiting: int = 64

    def answers_to(self, header: str) -> bool:
        """Whether a `Host` header names this server, at whatever port."""
        name = header.strip().casefold()
        if name.startswith("["):
            name, bracket, port = name[1:].partition("]")
            if not bracket:
                return False
            port = port.removeprefix(":")
        else:
            name, _, port = name.partition(":")
        if port and not (port.isascii() and port.isdigit()):
            return False
        return name in self.hosts or (self.any_address and _address(name) is not None)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to `host`."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


class Rates:
    """Counts the requests of each client, with room for bursts: two seconds' worth, or to load the page."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.clock = clock
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def wait(self, client: str) -> float:
        """Count a request; give the seconds to wait before it can be answered, 0 if it can be now."""
        if self.rate is None:
            return 0.0
        now, burst = self.clock(), max(_LEAST_BURST, 2 * self.rate)
        left, then = self._seen.pop(_network(client), (burst, now))
        left = min(burst, left + (now - then) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._seen[_network(client)] = (left if wait else left - 1, now)
        if len(self._seen) > _MOST_CLIENTS:
            self._seen.popitem(last=False)
        return wait


class Places:
    """Bounds how many requests are computed or wait for it."""

    def __init__(self, limits: Limits) -> None:
        self.free = limits.workers + limits.waiting

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place while the body runs; raises a 503 if there is none."""
        if self.free <= 0:
            raise HTTPException(
                503, "too many cases are being computed; try again", headers={"Retry-After": "1"}
            )
        self.free -= 1
        try:
            yield
        finally:
            self.free += 1


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read a request, unless it is too large or takes too long."""
    too_large = HTTPException(413, f"a request may have {limits.body:,} bytes at most")
    stated = request.headers.get("content-length", "0")
    if not stated.isdigit() or int(stated) > limits.body:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.patience):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise too_large
    except TimeoutError as error:
        raise HTTPException(408, f"the request did not arrive within {limits.patience:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the request ended before it was complete") from error
    return bytes(body)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _network(client: str) -> str:
    """Give what one client holds: an address or, of the sixth version, the half that is handed out."""
    address = _address(client)
    return str(int(address) >> 64) if isinstance(address, IPv6Address) else client
