"""The text of people's files: CSV in any encoding, compressed or not, and the sheets of Excel workbooks."""

import codecs
import csv
import datetime
import gzip
import io
import warnings
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ascertain._core.frames import listed
from ascertain.errors import InputError, did_you_mean

_WORKBOOKS = (".xlsx", ".xlsm")
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"  # how a file of Excel before 2007 begins
_ZIPPED = b"PK\x03\x04"  # how a workbook begins


def check_file(path: Path) -> None:
    """Raise where there is no such file, with the name that was probably meant."""
    if not path.is_file():
        others = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
        hint = f"; {did_you_mean(path.name, others)}" if others else ""
        raise InputError(f"there is no file {path}{hint}")


def is_workbook(path: Path) -> bool:
    """Whether a file is called like a workbook of Excel."""
    return path.suffix.casefold() in _WORKBOOKS


def read_text(path: Path, encoding: str | None = None, sheet: str | None = None) -> str:
    """Read the text of a file; a sheet of a workbook becomes CSV.

    Parameters
    ----------
    path
        A text file, which may be compressed (`.gz`), or a workbook (`.xlsx`).
    encoding
        How a text is written, such as `cp1252`; by default UTF-8, or UTF-16 where its first bytes say so.
    sheet
        The sheet of a workbook, by name or counted from 1; by default the first.
    """
    check_file(path)
    if is_workbook(path):
        return _sheet_text(path, sheet)
    if sheet is not None:
        raise InputError(f"a sheet (--sheet) is part of a workbook (.xlsx), and {path.name} is none")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except gzip.BadGzipFile as error:
        raise InputError(f"{path.name} is not a gzip file, whatever its name says: {error}") from error
    if content.startswith(_OLD_WORKBOOK):
        raise InputError(f"{path.name} is a workbook of an old Excel; save it as .xlsx or as CSV")
    if content.startswith(_ZIPPED):
        raise InputError(
            f"{path.name} is a workbook or another compressed file; if it is of Excel, call it .xlsx"
        )
    return _decoded(path, content, encoding)


def _decoded(path: Path, content: bytes, encoding: str | None) -> str:
    if encoding is None and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        chosen = codecs.lookup(encoding or "utf-8").name
    except LookupError as error:
        raise InputError(f"no encoding is called {encoding!r}; try cp1252, latin-1 or utf-16") from error
    try:
        text = content.decode("utf-8-sig" if chosen == "utf-8" else chosen)
    except UnicodeDecodeError as error:
        said = "UTF-8" if encoding is None else encoding
        raise InputError(
            f"{path.name} is not {said} text ({error}); name its encoding (--encoding cp1252 is common where "
            "Excel on Windows wrote it), or save it as CSV in UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")  # which ends lines on old Macs


def _sheet_text(path: Path, sheet: str | None) -> str:
    """Write a sheet as CSV, without its empty rows."""
    if find_spec("openpyxl") is None:
        raise InputError(
            f"{path.name} is a workbook; openpyxl must be installed to read it: pip install "
            '"ascertain[excel]", or save the sheet as CSV'
        )
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which are of no concern here
            book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, OSError) as error:
        raise InputError(f"{path.name} cannot be read as a workbook of Excel: {error}") from error
    name = _sheet_name(path, book.sheetnames, sheet)
    rows = list(book[name].iter_rows(values_only=True))
    book.close()
    filled = [row for row in rows if any(cell is not None for cell in row)]
    width = max(
        (1 + max(place for place, cell in enumerate(row) if cell is not None) for row in filled), default=0
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[_cell_text(cell) for cell in row[:width]] for row in filled])
    return text.getvalue()


def _sheet_name(path: Path, names: list[str], sheet: str | None) -> str:
    if sheet is None:
        if len(names) > 1:
            message = (
                f"{path.name}: the sheet {names[0]!r} is read, of {listed(names)}; --sheet names another"
            )
            warnings.warn(message, UserWarning, stacklevel=2)
        return names[0]
    if sheet in names:
        return sheet
    if sheet.isdigit() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise InputError(f"{path.name} has no sheet {sheet!r}; {did_you_mean(sheet, names)}")


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime.datetime):
        return str(cell.date()) if cell.time() == datetime.time() else cell.isoformat(" ", "seconds")
    text = str(cell)
    # Three decimals could be thousands if a person had written them.
    return f"{text}0" if isinstance(cell, float) and text[-4:-3] == "." else text
