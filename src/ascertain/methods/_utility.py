"""What a belief about the class is worth: by its log probability, or by what decisions from it cost."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ascertain._core.training import class_weights
from ascertain.decisions import decide
from ascertain.problem import Problem

_TINY = 1e-12  # added to probabilities before the logarithm


class Utility(eqx.Module):
    """The log probability of the true class; or minus the cost of the decision where decisions have costs.

    Costs are divided by a unit, so that utilities of either kind are of a like size.
    """

    decision_costs: Float[Array, "classes classes"] | None
    unit: Float[Array, ""]
    floor: float = eqx.field(static=True)  # of the log probability

    def __call__(
        self, belief: Float[Array, "*batch classes"], y: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """The utility where the class is `y`."""
        if self.decision_costs is not None:
            return -self.decision_costs[y, decide(belief, self.decision_costs)] / self.unit
        of_label = jnp.take_along_axis(belief, y[..., None], axis=-1)[..., 0]
        return jnp.maximum(jnp.log(of_label + _TINY), self.floor)

    def most_gain(self, belief: Float[Array, "*batch classes"]) -> Float[Array, "*batch"]:
        """How much to know the class would raise the utility: nothing can tell more than that."""
        if self.decision_costs is not None:
            return _cost_of_ignorance(belief, self.decision_costs) / self.unit
        return -jnp.sum(belief * jnp.log(belief + _TINY), axis=-1)


def utility_unit(problem: Problem, y: Int[Array, " rows"]) -> Float[Array, ""]:
    """What a utility of 1 is: a nat, or what it costs to decide the same for all of these classes."""
    if problem.decision_costs is None:
        return jnp.asarray(1.0)
    shares = jnp.bincount(y, length=problem.n_classes) / len(y)
    return jnp.maximum(_cost_of_ignorance(shares, problem.decision_costs), _TINY)


def utility_class_weights(problem: Problem, y: Int[Array, " rows"]) -> Float[Array, " classes"]:
    """How much a row of each class counts.

    Classes weigh the same, as in the paper. Where decisions have costs, rows do: what is expected is the cost
    in rows as they occur.
    """
    if problem.decision_costs is None:
        return class_weights(y, problem.n_classes)
    return jnp.full(problem.n_classes, 1 / problem.n_classes)


def _cost_of_ignorance(
    belief: Float[Array, "*batch classes"], costs: Float[Array, "classes classes"]
) -> Float[Array, "*batch"]:
    """The expected cost of the best decision, less that of deciding when the class is known."""
    return jnp.min(belief @ costs, axis=-1) - belief @ jnp.min(costs, axis=1)
