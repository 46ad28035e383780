"""Prices: tests that share a blood draw, and what this case costs.

Some costs are shared. The first blood test of a patient pays for drawing blood, the next ones do not. And
prices change: today the scanner is free, and this patient does not want a scan at all. This example shows how
to say both.
"""

# %%
# ## The patients
#
# Three blood tests and a scan. The scan tells more than any other test by itself, but two of the blood tests
# together tell more, and cost less. Four in ten cells are empty.

import warnings

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier

rng = np.random.default_rng(0)
ill = rng.integers(2, size=1500)
patients = pd.DataFrame(
    {
        "age": rng.normal(60, 10, 1500),
        "glucose": ill + rng.normal(size=1500),
        "iron": ill + rng.normal(size=1500),
        "sodium": rng.normal(size=1500),
        "scan": 1.3 * ill + rng.normal(size=1500),
    }
).round(2)
tests = ["glucose", "iron", "sodium", "scan"]
patients[tests] = patients[tests].mask(rng.random((1500, 4)) < 0.4)
outcome = np.where(ill == 1, "ill", "well")

# %%
# ## A set-up that tests share
#
# `setup` names what tests share, what it costs, and which columns need it. A blood test costs 2, and the
# first one 5 more. The files of `ascertain fit` have two columns for the same (see `docs/practice.md`).

model = AcquisitionClassifier(
    method="planner",
    costs={"glucose": 2, "iron": 2, "sodium": 2, "scan": 12},
    setup={"blood draw": {"cost": 5, "columns": ["glucose", "iron", "sodium"]}},
    known=["age"],
    budget=12,
    restorer="hotdeck",
    effort="low",
    random_state=0,
)
model.fit(patients, outcome)

new = pd.DataFrame({"age": [61.0, 61.0], "glucose": [None, 1.2]}).reindex(columns=patients.columns)
advice = model.recommend(new)
print(advice[["action", "cost", "prediction", "probability"]].round(2).to_string())

# %%
# The first patient pays 7 for a blood test: 2 and the draw. For the second one blood was drawn already, so
# the next blood test costs 2.
#
# ## This case's prices
#
# Today the scan costs 3, since a research project pays the rest. `costs` changes prices for these cases only.
# A policy that was trained for other prices says so; the planner counts with the new ones.

with warnings.catch_warnings(record=True) as notes:
    warnings.simplefilter("always")
    cheap_scan = model.recommend(new.iloc[[0]], costs={"scan": 3})
print("with a scan for 3:", cheap_scan["action"].item(), "for", cheap_scan["cost"].item())
print("note:", notes[0].message)

# %%
# This patient wants no needles: the whole set-up is out of the question. For another one only 6 may be spent,
# which pays for nothing.

print("no needles:", model.recommend(new.iloc[[0]], forbid=["blood draw"])["action"].item())
print("at most 6: stop because of the", model.recommend(new.iloc[[0]], budget=6)["why"].item())

# %%
# A budget is for all of a case. What is on file counts as paid for, unless `spent` says otherwise: the second
# patient has a glucose value from last week, which cost nothing today.

print("7 of 8 spent: stop because of the", model.recommend(new.iloc[[1]], budget=8)["why"].item())
print("0 of 8 spent: order", model.recommend(new.iloc[[1]], budget=8, spent=0)["action"].item())
