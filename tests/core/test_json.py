"""Strict JSON: what most readers would let pass is refused, and digests go by content."""

import pytest

from ascertain._core.json import Strict, digest_of, first_finding, plain_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "a key occurs twice"),
        ('{"a": NaN}', "NaN is not a number in JSON"),
        ('{"a": 1e400}', "1e400 is too large"),
        ('{"a": ', "Expecting value"),
    ],
)
def test_doubtful_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plain_json(text.encode())


def test_the_layout_does_not_change_the_digest() -> None:
    assert digest_of(plain_json(b'{"b": 1, "a": [2, 3]}')) == digest_of(plain_json(b'{"a":[2,3],\n"b":1}'))
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_the_first_finding_is_named_with_its_place() -> None:
    class Case(Strict):
        size: int

    with pytest.raises(ValueError, match="size") as caught:
        Case.model_validate_json('{"size": "3"}')
    assert first_finding(caught.value) == "size: Input should be a valid integer"
    assert first_finding(KeyError("x")) == "'x'"
