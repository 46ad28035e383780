"""What holes in the records do to a policy, and whether restoration brings it back.

In CUBE-NM a context says which ten of fifty features tell the class; the context costs 1, as does each
feature, and we may make ten measurements. We train on 5,000 complete records, then on the same records with
half of the values lost at random: once as they are, and once restored.

    python examples/cube_nm.py          # some minutes on two cores

Complete records teach to buy the context first, and then what it points to: the class is told right in some
60% of new records. With holes it is half as many, restored or not. Restoration pays where what it draws
supports what a method learns from complete records: for this method on CUBE-NUC, for AACO and OL on CUBE-NM
(docs/reproduce.md). So compare both on rows that were kept out, as `ascertain fit` does.
"""

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier, load

cube = load("cube_nm")
features, actions = list(cube.problem.feature_names or ()), list(cube.problem.action_names or ())
panels = {
    action: [feature for feature, there in zip(features, revealed, strict=True) if there]
    for action, revealed in zip(actions, np.asarray(cube.problem.reveals), strict=True)
    if sum(revealed) > 1
}


def records(seeds: range) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw 1,000 records per seed."""
    drawn = [cube.draw(seed) for seed in seeds]
    table = pd.DataFrame(np.concatenate([each.x for each in drawn]), columns=features)
    return table, np.concatenate([each.y for each in drawn])


seen, seen_classes = records(range(5))
new, new_classes = records(range(5, 6))
holes = np.random.default_rng(0).random(seen.shape) < 0.5

for name, table, treatment in (
    ("complete records", seen, "restricted"),
    ("half of the values lost, used as they are", seen.mask(holes), "restricted"),
    ("half of the values lost, restored", seen.mask(holes), "restored"),
):
    model = AcquisitionClassifier(groups=panels, budget=10, treatment=treatment, random_state=0)
    model.fit(table, seen_classes)
    # The new records are complete, so what the policy asks for is always there.
    curve = model.evaluate(new, new_classes, budgets=[5, 10])
    accuracy = curve[(curve["metric"] == "accuracy") & (curve["estimator"] == "ipw")]
    print(name)
    print(accuracy[["budget", "estimate", "low", "high"]].round(3).to_string(index=False), "\n")
