"""What a served model is for, what it is not for, and where it comes from."""

from dataclasses import dataclass

from ascertain._core.frames import listed
from ascertain._core.version import __version__
from ascertain.estimator.advisor import Advisor

CAUTIONS = (
    "It does not decide. It repeats patterns of its training table to a person, who knows the case and "
    "decides.",
    "It is not made for cases unlike those of its training table. Values outside of what training had are "
    "flagged; with them, nothing here can be relied on.",
    "Its probabilities hold where classes are as frequent as in training, and where the same kind of cases "
    "is looked at.",
    "It does not say what causes what, and not that a measurement is harmless: costs and the budget are all "
    "that it weighs.",
    "A benefit is what a measurement is expected to tell about the class, by the model's own guesses of its "
    "result. It is no promise.",
)


@dataclass(frozen=True)
class About:
    """What to tell people about a model before they trust it.

    Parameters
    ----------
    title
        What to call it.
    purpose
        What it is for.
    cautions
        What it is not for.
    provenance
        Where it comes from, by label.
    """

    title: str
    purpose: str
    cautions: tuple[str, ...]
    provenance: dict[str, str]

    @classmethod
    def of(cls, advisor: Advisor, title: str = "Consultation", purpose: str | None = None) -> "About":
        """Describe an advisor by what is known of its training; `purpose` says what only people know."""
        origin, encoding = advisor.origin, advisor.encoding
        classes = listed(map(str, advisor.classes))
        general = (
            f"It says which of {len(encoding.actions)} measurements to take next for one case, and which "
            f"class the case is probably of ({classes}), from what is known so far."
        )
        return cls(
            title=title,
            purpose=general if purpose is None else f"{purpose} {general}",
            cautions=CAUTIONS,
            provenance={
                "Method": f"{origin.method} ({origin.state})",
                "Training rows": f"{origin.train_rows:,}",
                "Validation rows": f"{origin.valid_rows:,}",
                "Training data": f"sha256 {origin.data_hash[:16]}…",
                "Seed": str(origin.seed),
                "Served by": f"ascertain {__version__}",
            },
        )
