"""The two protocols against the table at the end of the specification's first page."""

import dataclasses

import pytest

from ascertain import InputError
from ascertain.protocol import AFABENCH, PAPER, Protocol, protocol

# Field: what the paper's text says, and what AFABench does (in the order of the specification).
FIELDS: dict[str, tuple[object, object]] = {
    "affordability": ("illegal", "blind"),
    "greedy_horizon": ("affordable", "steps"),
    "aaco_no_support": ("exclude", "infinite"),
    "aaco_groups": ("subsets", "one_step"),
    "aaco_fallback": ("best_action", "lowest_index"),
    "ol_availability": ("respect", "ignore"),
    "gdfs_cost": ("log", "log_then_divide"),
    "dime_shared_updates": (1, 2),
    "standardise": ("train", "all"),
    "pretrain_mask": ("action", "column"),
    "ray_fit": ("damaged", "all"),
}


def test_the_fields_are_those_of_the_specification_and_no_others() -> None:
    assert [field.name for field in dataclasses.fields(Protocol)] == ["name", *FIELDS]


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_has_the_value_of_its_source(field: str) -> None:
    assert (getattr(PAPER, field), getattr(AFABENCH, field)) == FIELDS[field]


@pytest.mark.parametrize("value", [PAPER, AFABENCH])
def test_a_protocol_is_found_by_its_name_and_cannot_be_changed(value: Protocol) -> None:
    assert protocol(value.name) is value
    for field in ("name", *FIELDS):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, "other")


def test_the_names() -> None:
    assert (PAPER.name, AFABENCH.name) == ("paper", "afabench")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "there are 'paper', 'afabench'"),
        ("Paper", "did you mean 'paper'"),
        ("afa", "there are 'paper', 'afabench'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"no protocol is called '{name}'; {hint}"):
        protocol(name)
