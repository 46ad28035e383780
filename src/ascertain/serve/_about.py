"""What a served model is for, what it is not for, and where it comes from."""

from pydantic import BaseModel, ConfigDict

from ascertain._core.frames import listed
from ascertain._core.version import __version__
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import habit_sentences
from ascertain.policy import LooksAhead

CAUTIONS = (
    "It does not decide. It shows patterns of its training table to a person who knows the case and decides.",
    "It is not made for cases unlike those of its training table. Values outside the training range are "
    "flagged; do not rely on anything shown here once there is one.",
    "Its probabilities hold only where cases are of the same kind, and classes as frequent, as in training.",
    "It knows nothing about causes, and nothing about the risks of a measurement: it weighs only costs and "
    "the budget.",
    "A benefit is the share of the uncertainty about the class (the information, in bits) that the model "
    "expects a measurement to remove, given its own guesses of the result. It is not a promise.",
)

# By whether it looks ahead.
_KINDS = {True: "plans ahead to the end of the budget", False: "learned from the training rows"}


class About(BaseModel):
    """What people should know about a model before they trust it: purpose, limits, and origin by label.

    Examples
    --------
    `About.of` describes a fitted model, as in `examples/own_page.py`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    purpose: str
    cautions: tuple[str, ...]
    provenance: dict[str, str]

    @classmethod
    def of(cls, advisor: Advisor, title: str = "Consultation", purpose: str | None = None) -> "About":
        """Describe an advisor by its training; `purpose` adds what only people know."""
        origin, encoding = advisor.origin, advisor.encoding
        general = (
            f"It says which of {len(encoding.actions)} measurements to take next for one case, and which "
            f"class the case probably belongs to ({listed(map(str, advisor.classes))}), from what is known "
            "so far."
        )
        trained, validated = _row_counts(advisor)
        kind = _KINDS[isinstance(advisor.policy, LooksAhead)]
        return About(
            title=title,
            purpose=general if purpose is None else f"{purpose} {general}",
            cautions=(*CAUTIONS, *habit_sentences(advisor.habits)),
            provenance={
                "Policy": f"{kind} ({origin.method}, {origin.state})",
                "Training rows": trained,
                "Validation rows": validated,
                "Training data": f"sha256 {origin.data_hash[:16]}…",
                "Seed": str(origin.seed),
                "Served by": f"ascertain {__version__}",
            },
        )


def _row_counts(advisor: Advisor) -> tuple[str, str]:
    """How many rows of the table it was fitted to; older models know only how many with repeats."""
    if advisor.table_rows is not None:
        return f"{advisor.table_rows[0]:,}", f"{advisor.table_rows[1]:,}"
    repeated = advisor.origin.train_rows, advisor.origin.valid_rows
    return f"{repeated[0]:,}, repeats included", f"{repeated[1]:,}, repeats included"
