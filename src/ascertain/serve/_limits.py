"""What the server accepts: from whom, how large, how many at a time, and how often."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": "80", "https": "443"}  # the usual ones
_MAX_CLIENTS = 10_000  # whose rates are remembered
_MIN_BURST = 10.0


@dataclass(frozen=True)
class Limits:
    """What the server accepts; it refuses the rest.

    Parameters
    ----------
    hosts
        Names that the server answers to. Any other `Host` is refused: a page elsewhere could point a name of
        its own at this machine (DNS rebinding) and then read the replies.
    any_address
        Whether to answer to every numeric address as well, since no name stands behind one.
    proxied
        Names under which a proxy offers the page, if it passes on another `Host`: scripts of pages there may
        send requests.
    rate
        Requests per second and client; None: no limit.
    body
        Size of the largest request, in bytes.
    timeout
        Seconds within which a request must arrive, and a response be read.
    idle
        Seconds that a connection may stay open between requests.
    connections, per_client
        How many connections may be open, altogether and of one client. Beyond that, one whose client does not
        read is closed, or else the one that has waited longest for a request.
    workers, waiting
        How many cases are computed at a time, and how many more may wait.

    Examples
    --------
    >>> limits = Limits(rate=5)
    >>> limits.answers_to("localhost:8000"), limits.answers_to("elsewhere.example")
    (True, False)
    """

    hosts: tuple[str, ...] = LOOPBACK
    any_address: bool = False
    proxied: tuple[str, ...] = ()
    rate: float | None = None
    body: int = 2**20
    timeout: float = 10.0
    idle: float = 30.0
    connections: int = 512
    per_client: int = 128
    workers: int = 2
    waiting: int = 64

    def answers_to(self, header: str) -> bool:
        """Whether a `Host` header names this server, on any port."""
        place = _place(header)
        if place is None:
            return False
        return place[0] in self.hosts or (self.any_address and _address(place[0]) is not None)

    def trusts(self, origin: str, host: str) -> bool:
        """Whether a page of this `Origin` may send requests to this `Host`: only the server's own may.

        The server itself does not encrypt. A proxy may do that for it, but hardly under the name `localhost`,
        unless `proxied` has it.
        """
        scheme, _, rest = origin.strip().casefold().partition("://")
        theirs, own, usual = _place(rest), _place(host), _PORTS.get(scheme)
        if usual is None or theirs is None or own is None:
            return False
        if theirs[0] in self.proxied:
            return True
        alike = theirs[0] == own[0] and (theirs[1] or usual) == (own[1] or usual)
        return alike and (scheme == "http" or not is_loopback(own[0]))


def _place(header: str) -> tuple[str, str] | None:
    """The name and the port of a header, which may have none; None: it has another form."""
    name = header.strip().casefold()
    if name.startswith("["):
        name, bracket, port = name[1:].partition("]")
        if not bracket:
            return None
        port = port.removeprefix(":")
    else:
        name, _, port = name.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return None
    return name, port


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


class Rates:
    """A token bucket per client, large enough for two seconds' worth and for loading the page."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.clock = clock
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when

    def wait(self, client: str) -> float:
        """Count a request and return the seconds until it can be answered: 0 if it can be now."""
        if self.rate is None:
            return 0.0
        now, burst = self.clock(), max(_MIN_BURST, 2 * self.rate)
        left, then = self._seen.pop(network_of(client), (burst, now))
        left = min(burst, left + (now - then) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._seen[network_of(client)] = (left if wait else left - 1, now)
        if len(self._seen) > _MAX_CLIENTS:
            self._seen.popitem(last=False)
        return wait


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request, unless it is too large or takes too long."""
    too_large = HTTPException(413, f"a request may have {limits.body:,} bytes at most")
    stated = request.headers.get("content-length", "0")
    if not stated.isdigit() or int(stated) > limits.body:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise too_large
    except TimeoutError as error:
        raise HTTPException(408, f"the request did not arrive within {limits.timeout:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the request ended before it was complete") from error
    return bytes(body)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def network_of(client: str) -> str:
    """What one client holds: an IPv4 address or, of IPv6, a whole /64 network."""
    address = _address(client)
    return str(int(address) >> 64) if isinstance(address, IPv6Address) else client
