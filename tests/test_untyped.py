"""Arguments of types that the annotations do not name, as users pass them where nothing checks types."""

import subprocess
import sys

import pytest

PROGRAM = """
import tempfile
import jax, numpy as np, pandas as pd
from ascertain import AcquisitionClassifier, InputError, Table
from ascertain.exact import FiniteProblem, fit_plan, sample_size
from ascertain.exact import shortcut
from ascertain.restoration import fit_mean, treat

def refused(message, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except InputError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)

# NumPy's numbers are numbers, and do not wrap around.
example = dict(rate=np.float32(0.5), epsilon=np.float64(0.1), delta=0.05)
of_numpy = dict(d=np.int64(100), budget=np.int64(64), values=np.int64(2))
needed = sample_size("restoration", **of_numpy, **example)
assert needed == sample_size("restoration", d=100, budget=64, **example) > 1e40

# Columns may be called by numbers.
table = pd.DataFrame([[0, 0], [1, 1]])
problem = FiniteProblem.from_table(table, label=1, budget=1)
assert problem.feature_names == ("0",) and len(problem.observe(table)) == 2

data = shortcut(4, 2).sample(0, 10)
refused("approach must be one of aliasing, filtering", fit_plan, shortcut(4, 2), data, "guessing")
refused("approach must be one of filtering, restoration", sample_size, "guessing", d=6, budget=2, **example)
refused("horizon must be a whole number", fit_plan, shortcut(4, 2), data, "restoration", 1.5)
refused("d must be a whole number", shortcut, 6.5, 2)
refused("feature_names must list 1 names", FiniteProblem, np.full((2, 2), 0.25), budget=1, feature_names=3)
refused("rate must be", shortcut(4, 2).sample, 0, 10, "half")
refused("rate must be", shortcut(4, 2).sample, 0, 10, True)

x, y = np.array([[1.0, np.nan], [2.0, 3.0]] * 10), [0, 1] * 10
by_mean = dict(restorer=fit_mean(Table(x, y)), key=jax.random.key(0))
assert treat(Table(x, y), "restored", completions=np.int64(3), **by_mean).completions == 3
said = "completions must be a whole number"
for wrong in ("6", 1.5, None, 0):
    refused(said, treat, Table(x, y), "restored", completions=wrong, **by_mean)
    refused(said, AcquisitionClassifier(completions=wrong).fit, x, y)
quick = dict(method="sequential", treatment="restored", restorer="mean", effort="low", random_state=0)
of_numpy = AcquisitionClassifier(**quick, completions=np.int64(3)).fit(x, y)
with tempfile.TemporaryDirectory() as folder:
    of_numpy.save(folder)
    assert AcquisitionClassifier.load(folder).completions == 3
"""


@pytest.mark.slow
def test_without_the_type_checker() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
