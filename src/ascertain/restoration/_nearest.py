"""Nearest hot deck: missing values are copied from one of the nearest training rows of the same class."""

from dataclasses import dataclass

from jaxtyping import PRNGKeyArray

from ascertain._core.settings import Count
from ascertain.problem import Problem, Table
from ascertain.restoration._hotdeck import HotDeck, fit_hotdeck
from ascertain.restoration._registry import register


@dataclass(frozen=True)
class Settings:
    """How many rows to choose from."""

    neighbours: Count = 10


@register(
    "nearest",
    summary="Nearest hot deck: copies what a row lacks from one of its nearest training rows of the class.",
    label="nearest hot deck",
    settings=Settings,
    label_free=True,
    keeps_rows=True,
)
def fit_restorer(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
) -> HotDeck:
    """Keep training rows as donors."""
    del valid
    return fit_hotdeck(key, problem, train, settings.neighbours)
