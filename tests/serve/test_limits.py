"""What the server takes on: from whom, how large, how many at a time, how often."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Answer, Consultation
from ascertain.serve import Limits
from ascertain.serve._limits import Rates, is_loopback
from tests.serve.cases import Client, serving


@pytest.mark.parametrize(
    ("header", "fits"),
    [
        ("localhost", True),
        ("LocalHost:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("127.0.0.1.evil.org", False),
        ("evil.org", False),
        ("evil.org:8000", False),
        ("localhost:8000@evil.org", False),
        ("localhost:evil", False),
        ("", False),
        ("[::1", False),
        ("[::1]evil.org", False),
        ("10.0.0.1", False),
    ],
)
def test_only_its_own_names_are_answered_to(header: str, fits: bool) -> None:
    assert Limits().answers_to(header) is fits


def test_an_open_server_answers_to_addresses_but_not_to_other_names() -> None:
    limits = Limits(hosts=("advice.example.org",), any_address=True)
    assert limits.answers_to("10.0.0.1:80")
    assert limits.answers_to("[fe80::1]:80")
    assert limits.answers_to("advice.example.org")
    assert not limits.answers_to("rebound.example.org")


def test_foreign_hosts_are_misdirected(client: Client) -> None:
    reply = client.send("GET", "/api/model", headers={"Host": "evil.org"})
    assert reply.status == 421
    assert "--allow-host" in reply.json()["error"]
    assert client.send("GET", "/", headers={"Host": "evil.org"}).status == 421


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.2", "example.org")))


def test_each_client_has_a_rate_of_its_own() -> None:
    now = 0.0
    rates = Rates(8.0, clock=lambda: now)
    assert [rates.wait("10.0.0.1") for _ in range(17)] == [0.0] * 16 + [0.125]  # two seconds' worth at once
    assert rates.wait("10.0.0.2") == 0
    now = 0.125
    assert [rates.wait("10.0.0.1") for _ in range(2)] == [0, 0.125]
    now = 100.0
    assert [rates.wait("10.0.0.1") for _ in range(17)] == [0.0] * 16 + [0.125]


def test_a_network_of_the_sixth_version_is_one_client() -> None:
    rates = Rates(0.5, clock=lambda: 0.0)
    assert [rates.wait("2001:db8::1") for _ in range(10)] == [0.0] * 10  # what a page takes to load
    assert rates.wait("2001:db8::2") == 2
    assert rates.wait("2001:db8:0:1::1") == 0


def test_the_clients_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascertain.serve._limits._MAX_CLIENTS", 3)
    rates = Rates(0.5, clock=lambda: 0.0)
    for client in "abcd":
        assert [rates.wait(client) for _ in range(10)] == [0.0] * 10
    assert rates.wait("d") == 2
    assert rates.wait("a") == 0  # forgotten


def test_too_many_requests_say_when_to_try_again(advisor: Advisor) -> None:
    with serving(advisor, Limits(rate=0.5)) as client:
        assert {client.send("GET", "/api/health").status for _ in range(10)} == {200}
        reply = client.send("GET", "/api/health")
    assert reply.status == 429
    assert 1 <= int(reply.headers["retry-after"]) <= 3
    assert "0.5 per second" in reply.json()["error"]


def test_large_requests_are_refused_before_they_arrive(advisor: Advisor) -> None:
    with serving(advisor, Limits(body=1000)) as client:
        assert client.advise(b"{}" + b" " * 998).status == 200
        assert client.advise(b"{}" + b" " * 999).status == 413
        endless = iter([b" " * 600] * 100)  # without a length, in parts
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        try:
            reply = client.send("POST", "/api/advice", chunks(endless), headers)
        except (BrokenPipeError, ConnectionResetError):  # refused while it was being sent
            return
        assert reply.status == 413


def chunks(parts: Iterator[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield b"%x\r\n%s\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


def test_slow_requests_are_given_up(advisor: Advisor) -> None:
    with serving(advisor, Limits(timeout=0.2)) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
            head = "POST /api/advice HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: 10\r\n\r\n{{".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 408")
        assert client.advise({}).status == 200


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold every advice until the event is set."""
    event = threading.Event()
    real = Consultation.answer

    def wait(consultation: Consultation) -> Answer:
        assert event.wait(20)
        return real(consultation)

    monkeypatch.setattr(Consultation, "answer", wait)
    return event


def test_beyond_a_number_of_cases_the_server_is_busy_but_awake(
    advisor: Advisor, held: threading.Event
) -> None:
    held.set()  # for the compilation
    with serving(advisor, Limits(workers=1, waiting=1)) as client, ThreadPoolExecutor(6) as pool:
        held.clear()
        asked = [pool.submit(client.advise, {}) for _ in range(6)]
        done = as_completed(asked, timeout=10)
        refused = [next(done).result() for _ in range(4)]  # at once: two have places
        assert {reply.status for reply in refused} == {503}
        assert {reply.headers["retry-after"] for reply in refused} == {"1"}
        assert "try again" in refused[0].json()["error"]
        assert client.send("GET", "/api/health").status == 200
        held.set()
        assert [each.result().status for each in done] == [200, 200]
        assert client.advise({}).status == 200
