"""The result of a comparison as plain data, for programs."""

import math
from typing import Any

from ascertain.estimator._habits import habit_sentences
from ascertain.practice.comparison._leaderboard import FittedCandidate, Leaderboard
from ascertain.practice.comparison._report import FitReport, result_sentences


def fit_data(report: FitReport) -> dict[str, Any]:
    """What was compared and chosen, every score on test rows, and what was left out; None: no estimate."""
    data, board = report.data, report.board
    rows = {"training": data.training, "validation": data.selection, "test": data.test}
    return {
        "target": data.table.target,
        "classes": list(data.table.classes),
        "budget": data.budget,
        "rows": {name: len(table.y) for name, table in rows.items()},
        "chosen": board.best.name,
        "estimator": board.best_candidates_estimator,
        "ranked_by": board.ranked_by,
        "policies": [_policy(board, each) for each in board.candidates],
        "subgroups": [record for each in report.subgroups for record in each.to_json()],
        "calibration": _calibration(report),
        "set_aside": dict(data.aside),
        "habits": habit_sentences(data.signs),
        "sentences": result_sentences(report),
    }


def _policy(board: Leaderboard, fitted: FittedCandidate) -> dict[str, Any]:
    found = board.to_panel(fitted)
    shown = ("estimate", "low", "high", "estimator")
    ends = None if found is None else {name: getattr(found, name) for name in shown}
    return {
        "name": fitted.name,
        "method": fitted.candidate.method,
        "treatment": fitted.treatment,
        "chosen": fitted is board.best,
        "estimator": board.estimator_of(fitted),
        "seconds": round(fitted.seconds, 1),
        "better_than_panel": ends,
        "scores": [
            {name: _plain(value) for name, value in record.items()}
            for record in fitted.test_scores.to_dict("records")
        ],
    }


def _calibration(report: FitReport) -> dict[str, Any]:
    found = report.calibration
    numbers = {name: _plain(getattr(found.error, name)) for name in ("estimate", "low", "high")}
    shares = {"confidence": found.confidence, "right": found.right}
    return numbers | shares | {"estimator": report.followed.estimator, "off": found.off}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
