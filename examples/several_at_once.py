"""Several tests at once: what to order when results come back together.

Where a laboratory needs a day, nobody orders one test after the other. Then a set is needed, and a set must
not contain two tests that tell the same.
"""

# %%
# ## The patients
#
# `first` and `second` measure the same thing with a little noise; each tells much. `other` tells less, but
# something else. One by one, the two copies look best. A third of the cells is empty.

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier

rng = np.random.default_rng(0)
latent, further = rng.normal(size=(2, 2000))
ill = np.where(2 * latent + 1.2 * further + rng.normal(size=2000) > 0, "ill", "well")
patients = pd.DataFrame(
    {
        "first": latent + 0.1 * rng.normal(size=2000),
        "second": latent + 0.1 * rng.normal(size=2000),
        "other": further + 0.1 * rng.normal(size=2000),
        "noise": rng.normal(size=2000),
    }
)
complete = patients.iloc[1500:]
seen = patients.iloc[:1500].mask(rng.random((1500, 4)) < 1 / 3)

# %%
# ## Fit
#
# Completions of a row must be joint draws here: the `nearest` hot deck takes all that a row lacks from one
# similar row. The plain `hotdeck` takes every test from another row, and could not see that two tests tell
# the same.

model = AcquisitionClassifier(method="gdfs", budget=2, restorer="nearest", effort="low", random_state=0)
model.fit(seen, ill[:1500])

# %%
# ## One test, or a set
#
# Without `batch` there is one test, and the next one depends on its result. With `batch=2` there are up to
# two that are ordered together: the set after which the prediction is expected to be best.

nothing_yet = pd.DataFrame(np.nan, index=[0], columns=patients.columns)
one = model.recommend(nothing_yet)
print("one test:", one["action"].item())
pair = model.recommend(nothing_yet, batch=2)
print("two tests:", *pair["actions"].item(), f"(right in {pair['right_after'].item():.0%} of such cases)")

# %%
# ## Check it
#
# Rows that were kept out, with nothing known but the tests of each set:

for tests in (["first", "second"], ["first", "other"]):
    rows = complete.where(complete.columns.isin(tests)[None].repeat(len(complete), axis=0))
    right = model.predict(rows) == ill[1500:]
    print(f"{' and '.join(tests):18} right in {right.mean():.0%}")

# %%
# For a file of cases: `ascertain recommend model new.csv --batch 2 --out next.csv`.
