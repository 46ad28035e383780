"""The shortcut problem: what holes do to planning, computed exactly.

The paper's example is so small that nothing has to be approximated: probabilities are counts, plans come from
dynamic programming, and the regret of a plan is computed. It shows in seconds why holes hurt, and why more
data do not help.
"""

# %%
# ## The problem
#
# A *context* says which of two blocks of features decides the label. A *shortcut* equals the label in three
# of four cases and costs the whole budget. The best plan buys the context and then the block that it names,
# and is always right.

import matplotlib.pyplot as plt
import numpy as np

from ascertain.exact import fit_plan, shortcut

problem = shortcut(d=6, budget=3)
print(problem)
print("begin with the", problem.optimal_plan().first_action)

# %%
# ## Two ways to learn from holes
#
# In 5,000 records 60% of the values are missing. *Aliasing* lets each record continue with what it has. For
# most records the better way cannot be followed to its end, so the plan takes the shortcut. *Restoration*
# plans as if every test could be ordered, which is how the plan will be used.

records = problem.sample(np.random.default_rng(0), n=5000, rate=0.6)
for approach in ("aliasing", "restoration"):
    plan = fit_plan(problem, records, approach)
    print(f"{approach}: regret {problem.regret(plan):.2f}\n{plan}\n")

# %%
# ## More data
#
# The regret against the number of records. Aliasing does not get better: its plan is wrong in the limit.
# Filtering, which learns from complete records only, needs far more records than restoration, since few of
# them are complete.

sizes = [30, 100, 300, 1000, 3000, 10_000]
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for approach in ("aliasing", "filtering", "restoration", "complete"):
    regrets = np.zeros((20, len(sizes)))
    for place, n in enumerate(sizes):
        for replicate in range(20):
            drawn = problem.sample(np.random.default_rng([replicate, n]), n=n, rate=0.6)
            regrets[replicate, place] = problem.regret(fit_plan(problem, drawn, approach))
    axes.plot(sizes, regrets.mean(axis=0), marker="o", label=approach)
    few, many = regrets.mean(axis=0)[[2, -1]]
    print(f"{approach:12} regret with 300 records {few:.3f}, with 10,000 {many:.3f}")
axes.set(xscale="log", xlabel="records", ylabel="regret")
axes.legend(frameon=False)
figure.savefig("regret.png", dpi=120)

# %%
# `ascertain exact` computes the whole study of the paper (`docs/exact-study.md`), and
# `ascertain.exact.FiniteProblem.from_table` makes such a problem of a small table of your own.
