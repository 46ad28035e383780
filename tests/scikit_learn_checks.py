"""Run all of scikit-learn's checks on the classifier and print those that fail; a skip counts as a failure.

    python -m tests.scikit_learn_checks '{"effort": "low"}'

A process of its own, without the run-time type checks of the other tests: scikit-learn passes values of wrong
types to the constructor, which must take them and leave it to `fit` to complain.

Most of the time goes into compiling programs for many small tables, so these are not optimised.
"""

import json
import os
import sys
import warnings

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported: one of the checks is skipped without

from sklearn.utils.estimator_checks import estimator_checks_generator

from ascertain import AcquisitionClassifier
from ascertain._core import compilation
from tests.compiler import NOT_OPTIMISED

# Rows are split and repeated at random, so that weights equal repetitions only statistically
# (`tests/estimator/test_weights.py`); these checks compare two fits digit by digit.
EXPECTED = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


def failures(estimator: AcquisitionClassifier) -> list[str]:
    """Give the checks that fail, each with its error."""
    failed, count = [], 0
    for instance, check in estimator_checks_generator(estimator):
        count += 1
        if check.func.__name__ in EXPECTED:
            continue
        try:
            check(instance)
        except BaseException as error:
            failed.append(f"{check.func.__name__}: {error!r}")
    return failed if count else ["there are no checks"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    compilation.compiler_options = lambda: NOT_OPTIMISED
    print(json.dumps(failures(AcquisitionClassifier(**json.loads(sys.argv[1])))))
