"""The server around the application: how many connections there may be, and how long they may be silent."""

import asyncio
import socket
from collections import Counter, OrderedDict
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ascertain.serve._limits import Limits, network_of

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)

_GRACE = 1.0  # seconds in which the application itself can say that the rest of a request came too late


def make_server(application: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Make a server that closes silent connections, and logs nothing of requests."""
    crowd = Crowd(limits)

    class Member(Connection):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, crowd=crowd, limits=limits, **named)

    config = uvicorn.Config(
        application,
        http=Member,
        ws="none",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


class Crowd:
    """The open connections by client.

    Where there are too many, one whose client does not read is closed, or else the one that has waited
    longest for a request: so those that say nothing, send half a request, or take no answer keep nobody out.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.sizes: Counter[str] = Counter()  # by client
        self._idle: dict[str, OrderedDict[Connection, None]] = {}  # by client, the first to be closed first
        self._clients: dict[Connection, str] = {}

    def enter(self, connection: "Connection", host: str) -> bool:
        """Let a connection in, if need be in the place of an idle one; False: all the others are busy."""
        client = network_of(host)
        if self.sizes[client] >= self.limits.per_client and not self._close_idle(client):
            return False
        if self.sizes.total() >= self.limits.connections:
            largest = max(self._idle, key=lambda each: self.sizes[each], default=None)
            if largest is None or not self._close_idle(largest):
                return False
        self._clients[connection] = client
        self.sizes[client] += 1
        self.wait(connection)
        return True

    def leave(self, connection: "Connection") -> None:
        """Forget a connection."""
        self.work(connection)
        client = self._clients.pop(connection, None)
        if client is not None:
            self.sizes[client] -= 1
            self.sizes += Counter()  # drops those without any

    def wait(self, connection: "Connection") -> None:
        """A connection waits for a request from now on."""
        if (client := self._clients.get(connection)) is not None:
            self._idle.setdefault(client, OrderedDict())[connection] = None

    def stall(self, connection: "Connection") -> None:
        """A connection's client does not read, so it is the first to be closed, though requests wait."""
        self.wait(connection)
        if (client := self._clients.get(connection)) is not None:
            self._idle[client].move_to_end(connection, last=False)

    def work(self, connection: "Connection") -> None:
        """A connection has a whole request, so it is not closed for others."""
        client = self._clients.get(connection, "")
        idle = self._idle.get(client, OrderedDict())
        idle.pop(connection, None)
        if not idle:
            self._idle.pop(client, None)

    def _close_idle(self, client: str) -> bool:
        for connection in self._idle.get(client, ()):
            self.leave(connection)
            connection.give_up()
            return True
        return False


class Connection(H11Protocol):
    """A connection that is closed if a request does not come, or a response is not read, in time."""

    def __init__(self, *given: Any, crowd: Crowd, limits: Limits, **named: Any) -> None:
        super().__init__(*given, **named)
        self.crowd = crowd
        self.limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._silent = False  # since the last response

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin: the first request must come in time."""
        super().connection_made(transport)
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            # Responses are written in two parts; the second must not wait until the first is acknowledged.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.crowd.enter(self, self.client[0] if self.client else ""):
            self._allow(self.limits.timeout)
        else:
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._allow(None)
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; the time for a request begins with its first byte, and again when its headers are there."""
        before = self.cycle
        if self._silent:
            self._silent = False
            self._allow(self.limits.timeout)
        super().data_received(data)
        if self._is_busy:
            self._work()
        elif self.cycle is not before:  # its headers are there, but not all of its body
            self._allow(self.limits.timeout + _GRACE)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if not self._is_busy and not self.transport.is_closing():
            self._silent = True
            self.crowd.wait(self)
            self._allow(self.limits.idle)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self.crowd.stall(self)
        self._allow(self.limits.timeout)

    def resume_writing(self) -> None:
        """Go on, as the client has read."""
        super().resume_writing()
        if self._is_busy:
            self._work()

    def give_up(self) -> None:
        """Close the connection without waiting for the client."""
        if not self.transport.is_closing():
            self.transport.abort() if self.transport.get_write_buffer_size() else self.transport.close()

    @property
    def _is_busy(self) -> bool:
        """Whether a request has arrived whole, and is not answered yet."""
        return self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)

    def _work(self) -> None:
        """Allow any time for an answer, unless the client does not read: sending more buys it no time."""
        if not self.flow.write_paused:
            self.crowd.work(self)
            self._allow(None)

    def _allow(self, seconds: float | None) -> None:
        """Allow so many seconds from now before giving up; None: any number."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.give_up)
