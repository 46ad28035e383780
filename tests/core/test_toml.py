"""TOML that is refused although Python may read it: too deep, or with numbers too large for anything."""

import pytest

from ascertain._core.toml import parse_toml


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "deeper than 32"),
        ("a = " + "[" * 40 + "]" * 40, r"^a\.\.\. is nested deeper than 32"),
        (".".join(["a"] * 2_000) + " = 1", "deeper than 32"),
        ("a = " + "9" * 5000, "too large"),
        ("[a]\nb = [1, 1" + "0" * 400 + "]", r"^a\.b has a number that is too large"),
        ("a = 0x" + "f" * 5000, "too large"),
        ("a =", "Invalid value"),
    ],
    ids=["lists", "some lists", "dots", "digits", "power of ten", "hexadecimal", "no value"],
)
def test_what_no_program_can_use_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_toml(text)


def test_large_numbers_and_nested_tables_are_read() -> None:
    assert parse_toml("a.b.c = [[1e300], [1" + "0" * 300 + "]]") == {"a": {"b": {"c": [[1e300], [10**300]]}}}
