"""The treatments of incomplete training data: the paper's (section 5.2), and learning from holes directly."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain.errors import InputError, did_you_mean
from ascertain.missingness._mechanisms import MCAR
from ascertain.problem import Problem, Table
from ascertain.restoration._impute import MeanFill
from ascertain.restoration._registry import check_completions
from ascertain.restoration._restorer import Restorer, complete, restore

Treatment = Literal["complete", "restricted", "restored", "direct"]
"""The type of a treatment; see `treat`."""
TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)
"""The names of all treatments; see `treat`."""
PAPERS: tuple[Treatment, ...] = ("complete", "restricted", "restored")


def check_treatment(name: str, known: Sequence[str] = TREATMENTS) -> None:
    """Raise unless a treatment of this name is known."""
    if name not in known:
        raise InputError(f"no treatment is called {name!r}; {did_you_mean(str(name), known)}")


def treat(
    table: Table,
    treatment: Treatment,
    *,
    restorer: Restorer | None = None,
    key: PRNGKeyArray | None = None,
    completions: int = 1,
) -> Table:
    """Make the table that a policy is trained on.

    Parameters
    ----------
    table
        Data with holes; for `"complete"`, data without.
    treatment
        `"complete"`: every cell is known. `"restricted"`: holes stay, and actions that are missing from a
        row are illegal in it. `"restored"`: holes are filled with draws, and every action is legal.
        `"direct"`: holes stay, and the method does not learn from them (only methods that can).
    restorer, key
        A fitted restorer, and the random key of the draws.
    completions
        How often every row is restored, each time with another draw. Methods that train in epochs take one
        completion of every row in each.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Table, fit_mean
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> treat(table, "restricted") is table  # what a row lacks cannot be acquired in it
    True
    >>> treat(table, "restored", restorer=fit_mean(table), key=jr.key(0)).available.all().item()
    True
    >>> TREATMENTS == get_args(Treatment)
    True
    """
    check_treatment(treatment)
    check_completions(completions)
    if treatment == "complete":
        if not bool(jnp.all(table.available)):
            missing = 1 - float(jnp.mean(table.available))
            raise InputError(
                f"the treatment 'complete' needs complete data, but {missing:.1%} of the cells are missing; "
                "use 'restricted' or 'restored'"
            )
        return table
    if treatment in ("restricted", "direct"):
        return table
    if restorer is None or key is None:
        raise InputError("the treatment 'restored' needs a fitted restorer= and a key=")
    return complete(key, restorer, table, completions)


class HeldOutError(NamedTuple):
    """The root mean squared error on cells that were observed and then hidden."""

    restorer: Float[Array, ""]
    mean: Float[Array, ""]  # of filling with the training means


def held_out_error(
    key: PRNGKeyArray,
    problem: Problem,
    restorer: Restorer,
    means: MeanFill,
    table: Table,
    rate: float = 0.2,
) -> HeldOutError:
    """Hide some of the actions that rows have, restore them, and compare with what was hidden.

    Parameters
    ----------
    key
        The random key.
    problem
        Its actions say which features are hidden together.
    restorer, means
        Fitted on training data.
    table
        Rows that the restorer was not fitted on, such as the validation rows, with their holes.
    rate
        The share of the available actions to hide.

    Examples
    --------
    `examples/score_restorers.py` shows why not to choose a restorer by it.
    """
    hiding, drawing = jr.split(key)
    left = MCAR.fit(hiding, problem, table, rate).sample(hiding, table).available
    # Only whole actions are held out; a row keeps its cells of actions that it has in part.
    readable = problem.readable(table.available).astype(jnp.float32)
    whole = readable @ problem.reveals.astype(jnp.float32) > 0
    held_out = table.available & ~left & whole
    seen = table.with_cells(table.x, table.available & ~held_out)
    if not bool(jnp.any(held_out)):
        raise InputError("no cell was held out: the table is too small, or its rows have one action each")

    def error(filler: Restorer) -> Float[Array, ""]:
        difference = restore(drawing, filler, seen).x - table.x
        return jnp.sqrt(jnp.sum(jnp.where(held_out, difference**2, 0.0)) / held_out.sum())

    return HeldOutError(error(restorer), error(means))
