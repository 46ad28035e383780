"""What holes do to a policy, and what restoration does about it.

In CUBE-NM a context says which features matter. Buying the context first tells nothing by itself, so a greedy
look at complete records would do well and one at records with holes might not. We lose half of the values at
random, and train on what is left: once as it is, and once restored.

    python examples/cube_nm.py
"""

import numpy as np
from sklearn.model_selection import train_test_split

from ascertain import AcquisitionClassifier, load
from ascertain.datasets.export import TARGET, export

cube = export(load("cube_nm"))
rows, classes = cube.table.drop(columns=TARGET), cube.table[TARGET]
seen, new, seen_classes, new_classes = train_test_split(rows, classes, test_size=0.3, random_state=0)
holes = np.random.default_rng(0).random(seen.shape) < 0.5
seen = seen.mask(holes)

for treatment in ("restricted", "restored"):
    model = AcquisitionClassifier(
        costs=cube.prices, groups=cube.panels, budget=10, treatment=treatment, random_state=0
    )
    model.fit(seen, seen_classes)
    # The new rows are complete, so what the policy asks for is always there.
    curve = model.evaluate(new, new_classes, budgets=[3, 5, 10])
    accuracy = curve[(curve["metric"] == "accuracy") & (curve["estimator"] == "ipw")]
    print(treatment)
    print(accuracy[["budget", "estimate", "low", "high"]].round(3).to_string(index=False), "\n")
