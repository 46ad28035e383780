"""How often intervals from incomplete rows hold the true scores, which a large complete sample gives.

    python benchmarks/coverage.py                                    # about ten minutes on one core
    python benchmarks/coverage.py --mechanisms mar --redraws 100     # less of it
    python benchmarks/coverage.py --mechanisms mcar --share 0.02 --rows 5000 --futures 4000   # a rare class

Test rows and their holes are drawn anew again and again; the policy, the predictor, the restorer and the
mechanism of missingness stay. Under MCAR and MAR about 95% of the intervals should hold the truth; under
MNAR, which no method can see in the data, the bias is what to look at.
"""

import argparse
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from rich.console import Console
from rich.table import Table as Printed

from ascertain import Policy, Problem, Table, evaluate, evaluate_incomplete, missingness
from ascertain.restoration import HotDeck, fit_hotdeck

console = Console(width=120)
METRICS = ("accuracy", "log_loss", "auroc")
MECHANISMS = ("mcar", "mar", "mnar_logistic", "mnar_self")
# A share of the rows is of class 1; each feature is normal about its class's mean, and shares a factor.
SHARE = 0.35
MEANS = np.array([0.7, 1.2, 0.9, 0.5, 0.8, 0.3])
FACTOR = np.array([0.6, 0.3, -0.4, 0.5, 0.2, 0.6])
COSTS = (1.0, 2.0, 1.5, 1.0, 1.0, 0.5)
BUDGET = 4.0
TRUTH_ROWS = 400_000


class NaiveBayes(eqx.Module):
    """Predicts as if the features were independent in each class, which they are not."""

    means: Float[Array, " features"]
    share: Float[Array, ""]

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Predict class probabilities."""
        evidence = jnp.where(observed, self.means * (x - self.means / 2), 0.0).sum(axis=1)
        one = jax.nn.sigmoid(evidence + jnp.log(self.share / (1 - self.share)))
        return jnp.stack([1 - one, one], axis=1)


class Adaptive(Policy):
    """Acquires while the prediction is unsure, in an order that depends on which class is likelier."""

    predictor: NaiveBayes
    costs: Float[Array, " actions"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score actions by information per cost, in reverse order if class 1 is likely."""
        del available, key
        one = self.predictor(x, observed)[:, 1]
        moved = jax.nn.sigmoid(jax.scipy.special.logit(one) - jax.scipy.special.logit(self.predictor.share))
        sure = jnp.where(jnp.abs(moved - 0.5) > 0.4, jnp.inf, -jnp.inf)
        worth = self.predictor.means / self.costs
        scores = jnp.where(one[:, None] > self.predictor.share, worth[None, ::-1], worth[None])
        return jnp.concatenate([sure[:, None], jnp.broadcast_to(scores, acquired.shape)], axis=1)


PROBLEM = Problem(np.eye(len(MEANS)), COSTS, BUDGET, n_classes=2)


class World(NamedTuple):
    """A share of class 1, and a policy and a predictor for it."""

    share: float
    predictor: NaiveBayes
    policy: Adaptive

    @classmethod
    def of(cls, share: float) -> "World":
        """The world of a share."""
        predictor = NaiveBayes(jnp.asarray(MEANS, jnp.float32), jnp.asarray(share, jnp.float32))
        return cls(share, predictor, Adaptive(predictor, jnp.asarray(COSTS)))

    def draw(self, rng: np.random.Generator, n_rows: int) -> Table:
        """Draw complete rows."""
        y = (rng.random(n_rows) < self.share).astype(int)
        noise = rng.normal(size=(n_rows, len(MEANS))) * np.sqrt(1 - FACTOR**2)
        x = y[:, None] * MEANS + noise + rng.normal(size=(n_rows, 1)) * FACTOR
        return Table(x, y, n_classes=2)

    def truth(self) -> dict[str, float]:
        """Score the policy on many complete rows."""
        scores = evaluate(
            self.policy, PROBLEM, self.draw(np.random.default_rng(0), TRUTH_ROWS), self.predictor
        )
        return {metric: float(scores[metric].iloc[0]) for metric in METRICS}


def prepared(world: World, name: str, rate: float) -> tuple[missingness.Mechanism, HotDeck]:
    """Fit the mechanism, and a restorer to training rows that it has made holes in."""
    train = world.draw(np.random.default_rng(1), 1000)
    mechanism = missingness.get(name).fit(jr.key(1), PROBLEM, train, rate)
    holes = mechanism.sample(jr.key(2), train)
    return mechanism, fit_hotdeck(jr.key(3), PROBLEM, holes.take(jnp.arange(200)), neighbours=10)


def redraw(
    world: World,
    name: str,
    *,
    rate: float,
    redraws: int,
    rows: int,
    resamples: int = 0,
    draws: int = 8,
    futures: int = 65_536,
) -> pd.DataFrame:
    """Estimate from many tables: one row per table, estimator and metric."""
    mechanism, restorer = prepared(world, name, rate)
    stream = 2 + MECHANISMS.index(name)  # so that mechanisms do not share their rows
    found = []
    for number in range(redraws):
        complete = world.draw(np.random.default_rng([stream, number]), rows)
        table = mechanism.sample(jr.fold_in(jr.key(stream), number), complete)
        frame = evaluate_incomplete(
            world.policy,
            PROBLEM,
            table,
            world.predictor,
            restorer=restorer,
            resamples=resamples,
            draws=draws,
            futures=futures,
            seed=number,
        )
        found.append(frame[frame["metric"].isin(METRICS)])
    return pd.concat(found, ignore_index=True)


def summarise(found: pd.DataFrame, true: dict[str, float]) -> pd.DataFrame:
    """Tabulate coverage, bias and width by estimator and metric."""
    value = found["metric"].map(true)
    scored = found.assign(
        covered=(found["low"] <= value) & (value <= found["high"]),
        error=found["estimate"] - value,
        width=found["high"] - found["low"],
    )
    by = scored.groupby(["estimator", "metric"], sort=False)
    return pd.DataFrame(
        {
            "coverage": by["covered"].mean(),
            "bias": by["error"].mean(),
            "bias_error": by["error"].sem(),
            "deviation": by["error"].std(),
            "width": by["width"].mean(),
            "followed": by["followed_rows"].mean(),
            "effective": by["effective_rows"].mean(),
            "rarest": by["rarest_effective_rows"].mean(),
            "drawn": by["drawn_rows"].max(),
        }
    ).reset_index()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS, choices=MECHANISMS)
    parser.add_argument("--rate", type=float, default=0.3, help="of values that are missing")
    parser.add_argument("--redraws", type=int, default=500)
    parser.add_argument("--rows", type=int, default=700)
    parser.add_argument("--share", type=float, default=SHARE, help="of class 1")
    parser.add_argument("--resamples", type=int, default=0, help="0: intervals from influence functions")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--futures", type=int, default=65_536, help="the most draws for one table")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    options = {name: value for name, value in vars(given).items() if name not in ("mechanisms", "share")}
    world = World.of(given.share)
    true = world.truth()
    console.print("truth: " + ", ".join(f"{name} {value:.4f}" for name, value in true.items()))
    for name in given.mechanisms:
        start = time.perf_counter()
        found = redraw(world, name, **options)
        each = (time.perf_counter() - start) / given.redraws
        summary = summarise(found, true)
        followed, effective = summary["followed"].iloc[0], summary["effective"].iloc[0]
        printed = Printed(
            title=f"{name}, rate {given.rate:g}: {given.redraws} tables of {given.rows} rows, of which "
            f"{followed:.0f} followed ({effective:.0f} effective, {summary['rarest'].iloc[0]:.0f} of the "
            f"rarest class; futures drawn in {summary['drawn'].max():.0f}); {each:.2f} s each"
        )
        for column in ("estimator", "metric", "coverage", "bias", "deviation", "width"):
            printed.add_column(column)
        for row in summary.to_dict("records"):
            bias = f"{row['bias']:+.4f} +- {row['bias_error']:.4f}"
            numbers = (f"{row['coverage']:.1%}", bias, f"{row['deviation']:.4f}", f"{row['width']:.4f}")
            printed.add_row(row["estimator"], row["metric"], *numbers)
        console.print(printed)


if __name__ == "__main__":
    main()
