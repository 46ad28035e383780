"""Amounts of money as people write them: `15.5`, `$1`, `1,50 EUR`, `1.234,50`, `€ 3`, `12,-`.

A comma or a dot before exactly three digits may group thousands or begin the decimals. It is read as the
other amounts of the list are written; where they do not tell, nothing is guessed.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from ascertain.errors import InputError

_CODES = frozenset(
    {
        *("AUD", "BGN", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP", "GHS"),
        *("HKD", "HUF", "IDR", "ILS", "INR", "ISK", "JPY", "KES", "KRW", "MAD", "MXN", "MYR", "NGN", "NOK"),
        *("NZD", "PEN", "PHP", "PKR", "PLN", "RON", "RSD", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "TWD"),
        *("UAH", "USD", "VND", "ZAR", "EURO", "EUROS", "DOLLAR", "DOLLARS", "FR", "SFR", "KR", "KČ", "ZŁ"),
        *("FT", "RS", "LEI", "R"),
    }
)
_DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}-"
_SPACES = " '\N{RIGHT SINGLE QUOTATION MARK}"  # that group thousands
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]+")
_GROUPED = re.compile(rf"[0-9]{{1,3}}([{_SPACES}][0-9]{{3}})+(?=$|[.,])")
_NO_CENTS = re.compile(rf"[.,][{_DASHES}]*$")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity|∞)", re.IGNORECASE)
_WORD = rf"[^0-9.,+{_SPACES}{_DASHES}]+\.?"


class _Parts(NamedTuple):
    """An amount, taken apart."""

    digits: str  # with commas and dots, without a currency
    negative: bool
    currency: str


def read_amounts(texts: Mapping[str, str], *, decimal: str | None = None) -> dict[str, float]:
    """Read amounts by name; those that the others do not make clear are refused, and so are two currencies.

    Parameters
    ----------
    texts
        What is written, by what an error is to call it.
    decimal
        What begins the decimals where an amount may be read in two ways and no other one tells.

    Examples
    --------
    >>> read_amounts({"ecg": "1.234,50 €", "scan": "€ 3", "visit": "2.500"})
    {'ecg': 1234.5, 'scan': 3.0, 'visit': 2500.0}
    """
    parts = {name: _take_apart(name, text) for name, text in texts.items()}
    _check_currency(parts, texts)
    marks = {mark for each in parts.values() if (mark := _decimal_mark(each.digits))}
    agreed = marks.pop() if len(marks) == 1 else decimal if not marks else None
    return {name: _number(name, texts[name], each, agreed) for name, each in parts.items()}


def _take_apart(name: str, text: str) -> _Parts:
    """Separate the sign and the currency from the digits."""
    if _NOT_FINITE.fullmatch(text.strip()):
        raise InputError(f"{name} is {text.strip()}; costs are finite and not negative")
    left = unicodedata.normalize("NFKC", text).strip()  # also turns narrow and unbreakable spaces into spaces
    negative = left.startswith("(") and left.endswith(")")  # as accountants write it
    left = left[1:-1].strip() if negative else left
    currency = ""
    for _ in range(2):  # "-$5", "$-5" and "US$ -5" are all written
        if left and left[0] in _DASHES:
            negative, left = True, left[1:].lstrip()
        before = re.match(_WORD, left)
        if before and _is_currency(before[0]):
            currency, left = before[0], left[before.end() :].lstrip()
    after = re.search(f"{_WORD}$", left)
    if after and not currency and _is_currency(after[0]):
        currency, left = after[0], left[: after.start()].rstrip()
    left = _NO_CENTS.sub("", left).removeprefix("+")
    if grouped := _GROUPED.match(left):
        left = re.sub(f"[{_SPACES}]", "", grouped[0]) + left[grouped.end() :]
    if not (_PLAIN.fullmatch(left) or re.fullmatch(r"[0-9.,]*[0-9]", left)):
        raise InputError(f"{name} is {text!r}, no number")
    return _Parts(left, negative, currency.removesuffix(".").upper())


def _is_currency(text: str) -> bool:
    """Whether a text is the sign or the code of a currency, as in `€`, `US$`, `EUR` and `kr.`."""
    letters = "".join(each for each in text.removesuffix(".") if unicodedata.category(each) != "Sc")
    has_sign = letters != text.removesuffix(".")
    if "¢" in text:
        return False
    return len(letters) <= 3 and (not letters or letters.isalpha()) if has_sign else letters.upper() in _CODES


def _check_currency(parts: Mapping[str, _Parts], texts: Mapping[str, str]) -> None:
    first: dict[str, str] = {}
    for name, each in parts.items():
        if each.currency:
            first.setdefault(each.currency, name)
    if len(first) > 1:
        one, other = list(first.values())[:2]
        raise InputError(
            f"{one} is {texts[one]!r}, and {other} is {texts[other]!r}: two currencies, or two ways to write "
            "one; write all in one, or without any"
        )


def _decimal_mark(digits: str) -> str | None:
    """What begins the decimals in a list that has this amount; None if the amount does not tell."""
    marks = re.findall(r"[.,]", digits)
    if not marks:
        return None
    if len(set(marks)) == 2:
        return str(marks[-1])
    if len(marks) > 1:  # thousands and millions
        return "," if marks[0] == "." else "."
    return None if _may_be_thousands(digits) else str(marks[0])


def _may_be_thousands(digits: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{0,2}[.,][0-9]{3}", digits) is not None


def _number(name: str, text: str, parts: _Parts, agreed: str | None) -> float:
    """The amount, given what begins the decimals in the amounts beside it."""
    digits = parts.digits
    if parts.negative and re.search("[1-9]", digits):
        raise InputError(f"{name} is {text.strip()}; costs are finite and not negative")
    if _PLAIN.fullmatch(digits):
        return float(digits)
    mark = _decimal_mark(digits)
    if mark is None and _may_be_thousands(digits):
        if agreed is None:
            bare = re.sub("[.,]", "", digits)
            small = digits.replace(",", ".")
            raise InputError(
                f"{name} is {text.strip()!r}, which may stand for {bare} or {small}; write {bare}, or "
                f"{small}0 if these are decimals"
            )
        mark = agreed
    whole, _, cents = digits.partition(mark) if mark else (digits, "", "")
    thousands = "," if mark == "." else "."
    if re.search("[.,]", cents) or not re.fullmatch(rf"[0-9]*|[0-9]{{1,3}}(\{thousands}[0-9]{{3}})+", whole):
        raise InputError(f"{name} is {text!r}, no number")
    return float(f"{whole.replace(thousands, '') or '0'}.{cents or '0'}")
