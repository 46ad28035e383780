"""The gallery: scripts of examples/ as pages, with what they print and draw.

A script is cut at its `# %%` lines into cells: comments first, which are the text, then code. The first words
of the script are the title of its page. What the cells print and the pictures that they write are kept in
examples/recorded, so that the site is built in seconds; `tests/test_gallery.py` fails if the code of a script
was changed since.

    python tools/gallery.py                        # run the scripts whose code was changed
    python tools/gallery.py first_table prices     # run these
"""

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
RECORDED = EXAMPLES / "recorded"
_MARKER = re.compile(r"^# %%.*$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A piece of a script: text, then code."""

    text: str
    code: str
    line: int  # of the script, at which the code begins

    @property
    def heading(self) -> str:
        """The heading that is nearest to the code, or nothing."""
        return "".join(re.findall(r"^#+ (.*)$", self.text, re.MULTILINE)[-1:])


@dataclass(frozen=True)
class Example:
    """A script of the gallery."""

    name: str
    source: str

    @classmethod
    def read(cls, name: str) -> "Example":
        """Read a script of examples/."""
        return cls(name, (EXAMPLES / f"{name}.py").read_text())

    @property
    def introduction(self) -> tuple[str, str]:
        """The title and the text of the docstring."""
        found = re.match(r'"""(.*?)\n(.*?)"""', self.source, re.DOTALL)
        if found is None:
            raise SystemExit(f"examples/{self.name}.py must begin with a docstring of a title and a text")
        return found[1].removesuffix("."), found[2].strip()

    @property
    def cells(self) -> list[Cell]:
        """The cells, in order."""
        marks = [*_MARKER.finditer(self.source)]
        ends = [*(mark.start() for mark in marks[1:]), len(self.source)]
        return [_cell(self.source, mark.end() + 1, end) for mark, end in zip(marks, ends, strict=True)]

    @property
    def digest(self) -> str:
        """Tells whether a record is of this code."""
        code = "\n".join(cell.code for cell in self.cells)
        return hashlib.sha256(code.encode()).hexdigest()[:16]

    @property
    def record(self) -> dict[str, Any] | None:
        """What its cells printed and drew, or None if it was not run yet."""
        path = RECORDED / f"{self.name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def is_recorded(self) -> bool:
        """Whether there is a record of this code."""
        record = self.record
        return record is not None and record.get("code") == self.digest

    def page(self) -> str:
        """The page of the site, in Markdown."""
        title, text = self.introduction
        record = self.record or {"cells": [{"printed": "", "pictures": []} for _ in self.cells]}
        parts = [f"# {title}", text]
        heading = title
        for cell, made in zip(self.cells, record["cells"], strict=True):
            heading = cell.heading or heading
            parts += [cell.text, f"```python\n{cell.code}\n```" if cell.code else ""]
            if made["printed"]:
                parts.append(f'```text title="prints"\n{made["printed"]}\n```')
            parts += [f"![{heading}]({picture})" for picture in made["pictures"]]
        parts.append(f"The whole script is `examples/{self.name}.py`.")
        return "\n\n".join(part for part in parts if part) + "\n"


def names() -> list[str]:
    """The names of all scripts of the gallery."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


def run_cells(example: Example) -> None:
    """Run a script cell by cell in the current folder, and write its record."""
    namespace = {"__name__": "__main__", "__file__": str(EXAMPLES / f"{example.name}.py")}
    warnings.showwarning = lambda message, category, *_, **__: print(f"{category.__name__}: {message}")
    found, pictures = [], set[Path]()
    for cell in example.cells:
        printed = io.StringIO()
        # Line numbers of errors are those of the script.
        program = compile("\n" * (cell.line - 1) + cell.code, namespace["__file__"], "exec")
        with redirect_stdout(printed):
            exec(program, namespace)
        new = sorted(set(Path().glob("*.png")) - pictures)
        pictures |= set(new)
        found.append(
            {"printed": printed.getvalue().rstrip(), "pictures": [_keep(example, each) for each in new]}
        )
    record = {"code": example.digest, "cells": found}
    (RECORDED / f"{example.name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _keep(example: Example, picture: Path) -> str:
    kept = f"{example.name}-{picture.name}"
    (RECORDED / kept).write_bytes(picture.read_bytes())
    return kept


def _cell(source: str, start: int, end: int) -> Cell:
    lines = source[start:end].splitlines()
    n_text = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:n_text])
    code = "\n".join(lines[n_text:])
    blank = len(code) - len(code.lstrip("\n"))
    return Cell(text.strip(), code.strip("\n"), source[:start].count("\n") + 1 + n_text + blank)


def main() -> None:
    """Run scripts, each from an empty folder in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--here", action="store_true", help="run one in this process and folder")
    chosen = parser.parse_args()
    if chosen.here:
        return run_cells(Example.read(chosen.names[0]))
    RECORDED.mkdir(exist_ok=True)
    for name in chosen.names or [each for each in names() if not Example.read(each).is_recorded]:
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(Path(__file__).resolve()), "--here", name]
            subprocess.run(command, cwd=folder, check=True, env=os.environ | {"MPLBACKEND": "agg"})
    return None


if __name__ == "__main__":
    main()
