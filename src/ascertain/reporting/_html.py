"""Self-contained HTML pages: one skeleton, one style sheet, one strict security policy."""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from ascertain._core.files import remove_abandoned, replacing
from ascertain._core.text import visible
from ascertain._core.version import __version__


def render_page(
    template: str, *, title: str, subtitle: str, js: str = "", made_from: str = "", **content: Any
) -> str:
    """Render a page; what is put into it is escaped.

    Parameters
    ----------
    template
        Text of a template that extends `base.html`, and may import from `macros.html`.
    title, subtitle
        The heading.
    js
        Our own script; no other is allowed to run.
    made_from
        What follows the version in the footer.
    content
        Variables of the template.
    """
    css = part("style.css")
    environment = Environment(
        loader=DictLoader({name: part(name) for name in ("base.html", "macros.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(
        policy=_policy(css, js),
        css=Markup(css),
        js=Markup(js),
        version=__version__,
        title=title,
        subtitle=subtitle,
        made_from=made_from,
        **content,
    )


def write_page(page: str, path: Path) -> None:
    """Write a page atomically: the old one stays if anything fails. Control characters become visible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(visible(page), encoding="utf-8", newline="\n")
    remove_abandoned(path)


def part(name: str, package: str = __package__) -> str:
    """Read a file that is part of a package: by default of this one."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _policy(css: str, js: str) -> str:
    """Content security policy: this page's own style and script, and embedded images; nothing else."""
    script = f"script-src {_digest(js)}; " if js else ""
    return (
        f"default-src 'none'; style-src {_digest(css)}; {script}img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
