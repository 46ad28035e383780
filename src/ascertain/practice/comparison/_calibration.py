"""Whether probabilities can be believed after the policy's acquisitions, in numbers and in words.

The expected calibration error is above 0 for true probabilities, too, since shares in its bins vary by
chance: with 60 rows it is about 0.1. So a warning needs an interval above what matters, and an error larger
than chance alone would make of the same predictions.
"""

from dataclasses import dataclass

import numpy as np

from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.metrics import calibration_excess
from ascertain.practice.comparison._scoring import Score
from ascertain.practice.comparison._summary import score_text

CLEARLY_OFF = 0.05  # a calibration error that matters
_DRAWS, _LEVEL = 400, 0.975
_MIXED = 3  # one direction prevails if it has so many times as much
_WORDS = {  # what it is, what follows for decisions, and for stopping
    "too cautious": (
        "they are too cautious, nearer to even chances than the truth is",
        "Expected costs come out too high, and decisions by cost avoid the costlier mistake more often than "
        "pays.",
        " It also measures longer than pays.",
    ),
    "too sure": (
        "they are too sure, nearer to 0% and 100% than the truth is",
        "Expected costs come out too low, and decisions by cost risk the costlier mistake more often than "
        "pays.",
        " It also stops measuring too early.",
    ),
    "mixed": (
        "they are too high for some cases and too low for others",
        "Expected costs, and decisions by them, can be wrong in either direction.",
        " It may also stop too early or too late.",
    ),
}


@dataclass(frozen=True)
class Calibration:
    """How far predicted probabilities are from frequencies in test rows."""

    error: Score  # the expected calibration error
    by_chance: float  # what the error of true probabilities in these rows exceeds in one of 40 cases
    confidence: float  # the mean probability of the likeliest class
    right: float  # in what share of the rows that is the true one
    excesses: tuple[float, ...]  # the parts of `right - confidence` by which class is the likeliest

    @property
    def off(self) -> bool:
        """Whether probabilities are clearly off."""
        return bool(self.error.low > CLEARLY_OFF and self.error.estimate > self.by_chance)  # NaN is neither

    @property
    def direction(self) -> str:
        """Too cautious or too sure; "mixed" if that depends on which class is the likeliest."""
        cautious = sum(each for each in self.excesses if each > 0)
        sure = -sum(each for each in self.excesses if each < 0)
        if min(cautious, sure) > max(cautious, sure) / _MIXED:
            return "mixed"
        return "too cautious" if cautious > sure else "too sure"


def measure_calibration(sample: WeightedPredictions, error: Score, *, seed: int = 0) -> Calibration:
    """Compare probabilities with frequencies; `error` is the calibration error of the same predictions."""
    confidence, likeliest = (
        sample.probabilities.astype(float).max(axis=1),
        sample.probabilities.argmax(axis=1),
    )
    right, share = likeliest == sample.y, sample.weight / sample.weight.sum()
    excesses = np.bincount(likeliest, share * (right - confidence))
    return Calibration(
        error=error,
        by_chance=_error_by_chance(sample, seed),
        confidence=float(share @ confidence),
        right=float(share @ right),
        excesses=tuple(excesses.tolist()),
    )


def calibration_sentences(found: Calibration, *, stop_early: bool = False) -> list[str]:
    """A warning where probabilities are clearly off: in which direction, how far, and what follows."""
    if not found.off:
        return []
    numbers = (
        f"On test rows, after its own acquisitions, the likeliest class had a probability of "
        f"{found.confidence:.0%} on average and was the true one in {found.right:.0%} of the rows "
        f"(calibration error {score_text(found.error)})."
    )
    what, follows, stops = _WORDS[found.direction]
    return [
        f"Be careful with its probabilities: {what}. {numbers} {follows}{stops if stop_early else ''} Which "
        "cases come before which (AUROC) does not depend on this. Before you decide by costs or from some "
        "probability on, compare predicted and true shares on rows of your own."
    ]


def _error_by_chance(sample: WeightedPredictions, seed: int) -> float:
    """The calibration error that true probabilities would rarely exceed, by draws of who is right."""
    p = sample.probabilities.astype(float)
    confidence, rng = p.max(axis=1), np.random.default_rng(seed)
    _, place = calibration_excess(p, sample.y, p.argmax(axis=1))

    def drawn() -> float:
        excess = (rng.random(len(confidence)) < confidence) - confidence
        return float(np.abs(np.bincount(place, sample.weight * excess)).sum() / sample.weight.sum())

    return float(np.quantile([drawn() for _ in range(_DRAWS)], _LEVEL))
