"""Requests per second and latency of `ascertain serve` under many clients at a time.

    python benchmarks/serve.py                      # fits a small model first: about a minute
    python benchmarks/serve.py --model model/ --clients 32 --seconds 10

Server and clients share the machine: the server is a process of its own, started by `ascertain serve`, and
the clients keep one connection each. Every request is a case of its own. The processor time of the server
alone says what is possible where clients have a machine of their own.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

console = Console(width=120)


def fit(folder: Path) -> None:
    """Fit and save a classifier of twelve columns."""
    from ascertain import AcquisitionClassifier, enable_cache

    enable_cache()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    table = pd.DataFrame(
        {f"test {i}": rng.normal(y * (i % 4) / 2, 1.0) for i in range(10)}
        | {"age": rng.integers(20, 90, 600), "sex": rng.choice(["female", "male"], 600)}
    )
    table.iloc[:, :10] = table.iloc[:, :10].mask(rng.random((600, 10)) < 0.3)
    model = AcquisitionClassifier(effort="low", budget=5, known=["age", "sex"], random_state=0)
    model.fit(table, y).save(folder)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """Run `ascertain serve` on a free port, and yield the port and the process."""
    command = [sys.executable, "-m", "ascertain", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield int(line.split(" —")[0].rsplit(":", 1)[1]), server.pid
        finally:
            server.terminate()


async def send(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await _exchange(reader, writer, method, path, body)
    finally:
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes
) -> tuple[int, bytes]:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
    return int(lines[0].split()[1]), await reader.readexactly(length)


def cases(columns: list[dict[str, Any]], number: int) -> list[bytes]:
    """Draw cases with up to four values known, one per step."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(number):
        entries = []
        for column in rng.permutation(np.array(columns, object))[: rng.integers(0, 5)]:
            if column["kind"] == "empty":
                continue
            if column["kind"] == "number":
                value: Any = round(float(rng.uniform(column["low"], column["high"])), 3)
            else:
                value = rng.choice(column["categories"] or [True, False]).item()
            entries.append({"values": {column["name"]: value}})
        found.append(json.dumps({"budget": None, "entries": entries}).encode())
    return found


async def client(port: int, bodies: list[bytes], end: float, times: list[float], statuses: list[int]) -> None:
    """Send cases one after the other until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 0
    while time.perf_counter() < end:
        begin = time.perf_counter()
        status, _ = await _exchange(reader, writer, "POST", "/api/advice", bodies[place % len(bodies)])
        times.append(time.perf_counter() - begin)
        statuses.append(status)
        place += 1
    writer.close()


def processor_time(process: int) -> float:
    """Seconds of processor time that a process has used (Linux), else NaN."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(port: int, process: int, n_clients: int, seconds: float) -> None:
    _, description = await send(port, "GET", "/api/model")
    bodies = cases(json.loads(description)["columns"], 256)
    for length in (1.0, seconds):  # the first only warms up
        times: list[float] = []
        statuses: list[int] = []
        begin, used = time.perf_counter(), processor_time(process)
        await asyncio.gather(
            *(
                client(port, bodies[each * 7 :] + bodies[: each * 7], begin + length, times, statuses)
                for each in range(n_clients)
            )
        )
        taken = time.perf_counter() - begin
    used = 1000 * (processor_time(process) - used) / len(times)
    errors = sum(status != 200 for status in statuses)
    median, slow = 1000 * np.quantile(times, [0.5, 0.99])
    console.print(
        f"{n_clients} clients, {len(times)} requests in {taken:.1f} s: {len(times) / taken:.0f} per second, "
        f"p50 {median:.0f} ms, p99 {slow:.0f} ms, "
        f"{errors} errors; {used:.2f} ms of the server's processor time for each",
        highlight=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Requests per second of `ascertain serve`.")
    parser.add_argument("--model", type=Path, help="a saved classifier; by default a small one is fitted")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = arguments.model or Path(scratch) / "model"
        if arguments.model is None:
            fit(folder)
        with serving(folder) as (port, process):
            asyncio.run(measure(port, process, arguments.clients, arguments.seconds))


if __name__ == "__main__":
    main()
