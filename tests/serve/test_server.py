"""Connections: silent and slow ones keep nobody out, and quick ones are not kept waiting."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Answer, Consultation
from ascertain.serve import Limits
from ascertain.serve._server import Crowd
from tests.serve.cases import Client, serving

HEALTH = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = (
    b"POST /api/advice HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 10\r\n\r\n{"
)
DELAYED = 0.04  # seconds after which Linux acknowledges what it need not answer


def connected(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=10)


def is_healthy(connection: socket.socket) -> bool:
    """Ask a server on an open connection."""
    connection.sendall(HEALTH)
    found = b""
    while not found.endswith(b"}"):
        part = connection.recv(4096)
        if not part:
            return False
        found += part
    return found.startswith(b"HTTP/1.1 200")


def seconds_until_closed(connection: socket.socket, drip: bytes = b"") -> float:
    """How long a server keeps a connection open; bytes are sent one by one meanwhile."""
    begin = time.monotonic()
    connection.settimeout(0.02)
    while time.monotonic() - begin < 8:
        try:
            if drip:
                connection.sendall(drip[:1])
                drip = drip[1:]
            if connection.recv(4096) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begin


def test_a_response_does_not_wait_for_an_acknowledgement(advisor: Advisor) -> None:
    with serving(advisor) as client:
        connection = HTTPConnection("127.0.0.1", client.port, timeout=10)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            connection.request("GET", "/api/model")
            assert connection.getresponse().read()
            times.append(time.perf_counter() - begin)
        connection.close()
    assert sorted(times)[5] < DELAYED


def test_silent_connections_keep_nobody_out(advisor: Advisor) -> None:
    with serving(advisor) as client, ExitStack() as stack:
        silent = [stack.enter_context(connected(client)) for _ in range(600)]
        for _ in range(5):
            assert client.advise({}).status == 200
        assert is_healthy(silent[-1])  # the last ones are still open
        assert silent[0].recv(100) == b""  # the first ones had to go


def test_half_sent_requests_keep_nobody_out(advisor: Advisor) -> None:
    with serving(advisor) as client, ExitStack() as stack:
        half = [stack.enter_context(connected(client)) for _ in range(600)]
        for connection in half:
            with suppress(OSError):  # the first ones had to go
                connection.sendall(HALF)
        for _ in range(5):
            assert client.advise({}).status == 200
        half[-1].sendall(b"}" + b" " * 8)  # the last ones are still open
        assert half[-1].recv(100).startswith(b"HTTP/1.1 200")


def test_a_body_must_come_in_time_however_slowly_it_drips(advisor: Advisor) -> None:
    body = HALF.replace(b"Content-Length: 10", b"Content-Length: 1000")
    with serving(advisor, Limits(timeout=0.4)) as client, connected(client) as connection:
        connection.sendall(body)
        assert 0.3 < seconds_until_closed(connection, b" " * 990) < 5
        assert client.advise({}).status == 200


@pytest.mark.parametrize("drip", [b"", b"GET /" + b"a" * 1000])
def test_a_request_must_come_in_time(advisor: Advisor, drip: bytes) -> None:
    with serving(advisor, Limits(timeout=0.4)) as client:
        with connected(client) as connection:
            assert 0.3 < seconds_until_closed(connection, drip) < 5
        assert client.advise({}).status == 200


@pytest.mark.parametrize("drip", [b"", b"GET /" + b"a" * 1000])
def test_between_requests_a_connection_may_rest_for_a_while(advisor: Advisor, drip: bytes) -> None:
    with serving(advisor, Limits(timeout=0.5, idle=1.0)) as client, connected(client) as connection:
        assert is_healthy(connection)
        time.sleep(0.7)  # longer than a request may take
        assert is_healthy(connection)
        assert 0.3 < seconds_until_closed(connection, drip) < 5


def test_who_does_not_read_is_given_up(advisor: Advisor) -> None:
    with serving(advisor, Limits(timeout=0.5)) as client, connected(client) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        with suppress(OSError):  # nothing more is taken
            for _ in range(200):
                connection.sendall(HEALTH.replace(b"/api/health", b"/page.js") * 50)
        time.sleep(1.0)
        assert seconds_until_closed(connection) < 5  # after what had been sent before
        assert client.advise({}).status == 200


PAGE = HEALTH.replace(b"/api/health", b"/page.js")


def without_reading(client: Client) -> socket.socket:
    """A connection that hardly buffers anything, and on which nothing is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0.2)
    connection.connect(("127.0.0.1", client.port))
    return connection


def test_who_does_not_read_keeps_nobody_out(advisor: Advisor) -> None:
    with serving(advisor, Limits(per_client=3)) as client, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(without_reading(client)).sendall(PAGE * 1000)
        time.sleep(0.5)  # until the buffers are full
        for _ in range(5):
            assert client.advise({}).status == 200


def test_asking_for_more_buys_no_time_for_reading(advisor: Advisor) -> None:
    with serving(advisor, Limits(timeout=0.5)) as client, without_reading(client) as connection:
        begin = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - begin < 4:
                connection.sendall(PAGE)
                time.sleep(0.002)  # one by one, as the server reads nothing behind a request that waits
        assert time.monotonic() - begin < 3


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold every advice until the event is set."""
    event, real = threading.Event(), Consultation.answer

    def wait(consultation: Consultation) -> Answer:
        assert event.wait(20)
        return real(consultation)

    event.set()  # for the compilation
    with monkeypatch.context() as patch:
        patch.setattr(Consultation, "answer", wait)
        yield event


def test_busy_connections_are_not_closed_for_others(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"POST /api/advice HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with held(monkeypatch) as event, serving(advisor, Limits(per_client=2)) as client, ExitStack() as stack:
        event.clear()
        busy = [stack.enter_context(connected(client)) for _ in range(2)]
        for connection in busy:
            connection.sendall(head + b"Content-Length: 2\r\n\r\n{}")
        time.sleep(0.3)
        with connected(client) as another:
            assert another.recv(100).startswith(b"HTTP/1.1 503")
        event.set()
        for connection in busy:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert client.advise({}).status == 200  # in the place of one that waits now


class Fake:
    """Stands for a connection in a crowd."""

    def __init__(self) -> None:
        self.closed = False

    def give_up(self) -> None:
        self.closed = True


def test_the_largest_client_makes_room_for_others() -> None:
    crowd = Crowd(Limits(connections=4, per_client=3))
    large: list[Any] = [Fake() for _ in range(4)]
    assert all(crowd.enter(each, "10.0.0.1") for each in large)
    assert [each.closed for each in large] == [True, False, False, False]
    small: list[Any] = [Fake(), Fake()]
    assert crowd.enter(small[0], "10.0.0.2")
    assert crowd.enter(small[1], "10.0.0.3")
    assert [each.closed for each in large] == [True, True, False, False]
    assert dict(crowd.sizes) == {"10.0.0.1": 2, "10.0.0.2": 1, "10.0.0.3": 1}
    for each in (*large, *small):
        crowd.work(each)
    late: Any = Fake()
    assert not crowd.enter(late, "10.0.0.4")  # all are busy
    crowd.leave(small[0])
    crowd.leave(small[0])
    assert crowd.enter(late, "10.0.0.4")
    for each in (*large, *small, late):
        crowd.leave(each)
    assert not crowd.sizes
    assert not crowd._idle


@pytest.mark.parametrize(
    ("origin", "host", "trusted"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("HTTP://LocalHost:8000", "localhost:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("https://advice.example", "advice.example", True),
        ("https://advice.example:443", "advice.example", True),
        ("https://10.0.0.1:8443", "10.0.0.1:8443", True),  # a proxy that passes the name on
        ("https://localhost:8000", "localhost:8000", False),  # another server: this one does not encrypt
        ("https://127.0.0.1", "127.0.0.1", False),
        ("ftp://localhost:8000", "localhost:8000", False),
        ("chrome-extension://localhost:8000", "localhost:8000", False),
        ("chrome-extension://proxy.example", "localhost:8000", False),
        ("http://localhost:3000", "localhost:8000", False),  # another server of the same machine
        ("http://localhost", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://evil.example", "localhost:8000", False),
        ("http://localhost:8000.evil.example", "localhost:8000", False),
        ("null", "localhost:8000", False),
        ("", "localhost:8000", False),
        ("localhost:8000", "localhost:8000", False),
        ("https://proxy.example", "localhost:8000", True),
        ("https://proxy.example.evil", "localhost:8000", False),
    ],
)
def test_only_its_own_page_may_send_requests(origin: str, host: str, trusted: bool) -> None:
    limits = Limits(hosts=("localhost", "advice.example"), proxied=("proxy.example",))
    assert limits.trusts(origin, host) == trusted


def test_requests_of_other_pages_are_refused(client: Client) -> None:
    own = f"http://127.0.0.1:{client.port}"
    assert client.advise({}, Origin=own).status == 200
    assert client.advise({}, **{"Origin": own, "Sec-Fetch-Site": "same-origin"}).status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        reply = client.advise({}, Origin=origin)
        assert reply.status == 403
        assert "another server" in reply.json()["error"]
        assert "access-control-allow-origin" not in reply.headers
    for site in ("cross-site", "same-site"):
        foreign = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert client.send("GET", "/api/model", None, foreign).status == 403
        followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert client.send("GET", "/", None, followed).status == 200  # a link to here
        assert client.send("POST", "/api/advice", json.dumps({}), followed).status == 403
