"""What wrong decisions cost, as people keep it in a small file."""

import csv
import io
from pathlib import Path

from ascertain.errors import InputError
from ascertain.tables._amounts import read_amounts
from ascertain.tables._files import read_text
from ascertain.tables._reading import likely_separator


def read_decision_costs(path: Path) -> dict[str, dict[str, float]]:
    """Read costs by true class and decision from a CSV file.

    The first line names the decisions, after a cell of any content. Every other line has a true class and
    what each decision costs where it is the true one. An empty cell is for the right decision, which costs
    nothing.
    """
    text = read_text(path)
    reader = csv.reader(io.StringIO(text), delimiter=likely_separator(text.partition("\n")[0]))
    lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    if len(lines) < 2 or len(lines[0][1]) < 2:
        raise InputError(
            f"{path.name} needs a first line of decisions and a line for each true class, such as "
            "'true,well,ill', 'well,0,1' and 'ill,10,0'"
        )
    decisions = lines[0][1][1:]
    for decision in decisions:
        if not decision or decisions.count(decision) > 1:
            raise InputError(f"{path.name}, line {lines[0][0]}: {decision!r} is no name, or is there twice")
    texts, costs = {}, {}
    for line, (true, *cells) in lines[1:]:
        if true in costs:
            raise InputError(f"{path.name}, line {line}: {true!r} has a line already")
        if len(cells) != len(decisions):
            raise InputError(
                f"{path.name}, line {line}: {len(cells)} costs for {len(decisions)} decisions, which the "
                f"first line names: {', '.join(map(repr, decisions))}"
            )
        costs[true] = [decision for decision, cell in zip(decisions, cells, strict=True) if cell]
        for decision, cell in zip(decisions, cells, strict=True):
            if cell:
                texts[f"{path.name}, line {line}: the cost of deciding {decision!r}"] = cell
            elif decision != true:
                raise InputError(f"{path.name}, line {line}: the cost of deciding {decision!r} is empty")
    amounts = iter(read_amounts(texts).values())
    return {true: {decision: next(amounts) for decision in listed} for true, listed in costs.items()}
