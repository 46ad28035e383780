"""The command `serve`: consultations as a web page."""

import signal
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ascertain.cli._app import app, console, warn
from ascertain.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ascertain.serve._limits import Limits

_USUAL_RATE = 10.0  # requests per second and client, where others can reach the server


@app.command(
    epilog="""
Examples:

`ascertain serve model/`

`ascertain serve model/ --port 0 --purpose "Suspected ischaemia in adults, before imaging."`

`ascertain serve model/ --host 0.0.0.0 --allow-host advice.example.org --rate 5`
"""
)
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The folder or file that a classifier was saved to.")
    ],
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen at; by default only this machine can connect.")
    ] = "127.0.0.1",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Requests per second that one client may send.",
            show_default=f"any number from this machine, {_USUAL_RATE:g} with another --host",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that the server has elsewhere; can be repeated.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="A sentence about what the model is for, for the page.")
    ] = None,
) -> None:
    """Serve a saved classifier as a web page and a JSON API, step by step through one case at a time.

    Nothing of a case is stored or logged: the page holds it. The API is described at /api/openapi.json.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise typer.BadParameter(f"{rate:g} is not a positive number", param_hint="--rate")
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f'{" and ".join(missing)} must be installed: pip install "ascertain[serve]"')
    from ascertain.estimator._classifier import AcquisitionClassifier
    from ascertain.serve import About, create_app
    from ascertain.serve._limits import is_loopback

    # Before the model is loaded, which takes longer than to find out that the port is in use.
    with listening(host, port) as listener:
        if not is_loopback(host):
            warn(
                f"{host} can be reached from other machines, without a password and without encryption; "
                "put a proxy in front of it that has both"
            )
        advisor = AcquisitionClassifier.load(folder).advisor_
        about = About.of(advisor, folder.resolve().name.removesuffix(".safetensors"), purpose)
        limits = limits_for(host, rate, allow_host or [])
        application = create_app(advisor, about, limits=limits)
        shown = f"[{host}]" if ":" in host else host
        console.print(
            f"Listening at http://{escape(shown)}:{listener.getsockname()[1]} — Ctrl+C ends it.",
            soft_wrap=True,
        )
        _run(application, listener, limits)


def listening(host: str, port: int) -> socket.socket:
    """Open the socket of a server."""
    try:
        kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=kind, backlog=256)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise InputError(
            f"cannot listen at {host}, port {port} ({reason}); is another server there? name another "
            "--port or --host, or --port 0 for any that is free"
        ) from error


def limits_for(host: str, rate: float | None, names: list[str]) -> "Limits":
    """The limits of a server that listens at `host`."""
    from ascertain.serve._limits import LOOPBACK, Limits, is_loopback

    everywhere = host in ("0.0.0.0", "::")
    return Limits(
        hosts=(*LOOPBACK, *(name.casefold() for name in (host, *names))),
        any_address=everywhere,
        proxied=tuple(name.casefold() for name in names),
        rate=rate if rate is not None or is_loopback(host) else _USUAL_RATE,
    )


def _run(application: "ASGIApp", listener: socket.socket, limits: "Limits") -> None:
    from ascertain.serve._server import make_server

    server = make_server(application, limits)

    def stop(number: int, frame: object) -> None:
        del number, frame
        server.should_exit = True

    # Uvicorn stops at these and then raises them anew, which would look as if something had gone wrong.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server.run(sockets=[listener])
