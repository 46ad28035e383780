"""A small advisor that needs no training, and a real server around it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain.estimator._advisor import Advisor, Origin
from ascertain.estimator._ranges import Ranges
from ascertain.policy import Policy
from ascertain.predictors._calibration import Calibrated
from ascertain.problem import Table
from ascertain.restoration import fit_hotdeck
from ascertain.serve import About, Limits, create_app
from ascertain.serve._server import make_server
from ascertain.tables._encoding import fit_encoding

EVIL = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'
CLASSES = np.array(["<b>ill</b>", "well"])
TRACES = [0]  # how often a program with a predictor in it was compiled


class Weighing(eqx.Module):
    """Predicts by a weighted sum of what is observed."""

    weights: Float[Array, " features"]

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        TRACES[0] += 1
        ill = jax.nn.sigmoid(jnp.where(observed, x * self.weights[None], 0.0).sum(axis=1))
        return jnp.stack([ill, 1 - ill], axis=1)


class InOrder(Policy):
    """Goes through the actions in order, but would never do the last one; it stops when nothing is legal."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        scores = -jnp.arange(acquired.shape[1] + 1, dtype=jnp.float32).at[0].set(jnp.inf)
        return jnp.broadcast_to(scores.at[-1].set(-jnp.inf), (x.shape[0], len(scores)))


def make_advisor() -> Advisor:
    """Make an advisor with each kind of column, a panel, known columns and names that look like markup."""
    rng = np.random.default_rng(0)
    n_rows = 60
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 81, n_rows).astype(float),
            "sex": rng.choice(["female", "male"], n_rows),
            "systolic": rng.normal(125, 15, n_rows).round(),
            "diastolic": rng.normal(80, 10, n_rows).round(),
            "ecg": rng.choice(["normal", "unclear", EVIL], n_rows),
            EVIL: rng.normal(size=n_rows).round(2),
            "scan": rng.random(n_rows) < 0.5,
            "__proto__": rng.normal(size=n_rows).round(2),
        }
    )
    table.loc[0, ["age", "sex"]] = 20.0, "female"
    table.loc[1, "age"] = 80.0
    encoding = fit_encoding(
        table,
        costs={"scan": 10, "pressure": 2},
        default_cost=1,
        groups={"pressure": ["systolic", "diastolic"]},
        known=["age", "sex"],
    )
    problem = encoding.problem(12, list(CLASSES))
    x, available = encoding.transform(table)
    rows = Table(x, rng.integers(0, 2, n_rows), available)
    weights = jnp.linspace(-1.5, 2.0, problem.n_features)
    return Advisor(
        encoding,
        CLASSES,
        problem,
        InOrder(),
        Calibrated(Weighing(weights), jnp.asarray(1.0)),
        fit_hotdeck(jr.key(0), problem.without_names(), rows),
        Ranges.guess(len(encoding.columns)),
        Origin("gdfs", "s", None, 48, 12, "0" * 64, 0),
    )


@dataclass
class Reply:
    """What a server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body, parse_constant=lambda name: 1 / 0)  # NaN is not JSON


@dataclass
class Client:
    """Talks to a server on this machine."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Reply(
                answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def advise(self, case: Any, **headers: str) -> Reply:
        body = case if isinstance(case, bytes) else json.dumps(case).encode()
        return self.send("POST", "/api/advice", body, {"Content-Type": "application/json", **headers})


@contextmanager
def serving(advisor: Advisor, limits: Limits | None = None) -> Iterator[Client]:
    """Run a server in a thread."""
    limits = Limits() if limits is None else limits
    app = create_app(advisor, About.of(advisor, "Chest <i>pain</i>"), limits=limits)
    server = make_server(app, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join(10)
    assert not thread.is_alive()
