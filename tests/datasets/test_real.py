"""The real files: their bytes, counts, prices and panels, against the sources' own descriptions."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain.datasets import Dataset, cube, cube_nm, cube_nuc, load
from ascertain.datasets import _diabetes as diabetes
from ascertain.datasets import _heart_disease as heart_disease
from ascertain.datasets import _miniboone as miniboone
from ascertain.datasets import _nhanes_i as nhanes_i
from ascertain.datasets import _nhanes_mortality as nhanes_mortality
from ascertain.protocol import AFABENCH
from ascertain.tables._encoding import actions_of

# sha256 of the files, compressed where they are
FILES = """
56fba31fa0d7bfbff9667b7149fd96a97c352e72aa582871a62a935e812f0e07 actg175/ACTG175.csv
a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8 heart_disease/processed.cleveland.data
d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796 heart_disease/processed.hungarian.data
834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314 heart_disease/processed.switzerland.data
e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f heart_disease/processed.va.data
f8bb4166f73095191800e1f5cd8753261f2aa13734c57f85d26de9b11350fb9b heart_disease/turney_costs.csv
5f6ad190e7a97d37ce1de17a54f912a823b72b60391d2fbdfcfa5491a1561d5e nhanes_mortality/y_nhanes_binary.npy
0b47963b6ad43dc98b7d0fb2065af47bba8727cb34bee5da27e148ef2abd6be6 nhanes_mortality/feature_costs.txt
9f10700dd06bc432b0fa382754d7a4c5647a8cfe8f0d535b87e5b4f370f574ad nhanes_mortality/feature_groups.txt
5d79e50c0839c8f3beb324d29328df43b54ef4d04a0557f047b7cf63183d7661 nhanes_mortality/schema.csv
51ad6c6ddb60a3bc2592b5944ac23e0764efd7d4a589ba9ccbd445c7297541f8 nhanes_mortality/NHANESI_subset_X.csv.gz
1d04fcd7cf7733fe0c4605b1d69c6c4db5c79dadbee126df06c9443b4382d114 nhanes_mortality/NHANESI_subset_y.csv.gz
dbd58646505eb15b1c581e2ffda32699258e3b2e03606526c60f3bd7793492ab diabetes/nhanes_t2d_1999_2018.csv.gz
a5a529ee8bdc44db07c37167ac68d231ab5110fdca02202a29c81a681ac37ec0 miniboone_substitutes/magic.csv.gz
295225e9fa60f5e9bdc8f66e24c3eb0893cb5ab318e9d87ab58f7d8740c2ab58 physionet2012/physionet.csv.gz
"""
HERE = {  # rows and features, rows of each class, actions, budgets, empty cells
    "actg175": ((2139, 23), (1618, 521), 23, (3, 5, 10), 0),
    "heart_disease": ((303, 13), (164, 139), 13, (2, 4, 7), 6),
    "heart_sites": ((920, 17), (411, 509), 14, (7, 30, 120), 1932),
    "nhanes_i": ((9278, 18), (2484, 6794), 14, (5, 10), None),
    "nhanes_t2d": ((58070, 30), (43428, 9782, 4860), 26, (5, 10, 15), None),
    "magic": ((19020, 10), (6688, 12332), 10, (2, 4, 6), 0),
    "physionet2012": ((12000, 41), (10293, 1707), 41, (5, 10, 15), 129088),
}
SIZES = {  # of the three parts
    "actg175": [1283, 428, 428],
    "heart_disease": [181, 60, 62],
    "heart_sites": [552, 184, 184],
    "nhanes_i": [5566, 1856, 1856],
    "nhanes_t2d": [34842, 11614, 11614],
    "magic": [11412, 3804, 3804],
    "physionet2012": [7200, 2400, 2400],
}
NEVER_FEATURES = {
    *("num", "cens", "cid", "Outcome", "class", "y", "pidnum", "SEQN", "cd496", "r"),
    *("glucose", "hba1c", "ever_diabetes", "insulin", "oral_diab_med"),
}
_loaded: dict[str, Dataset] = {}


def here(name: str) -> Dataset:
    """Load a dataset once for all tests."""
    if name not in _loaded:
        _loaded[name] = load(name)
    return _loaded[name]


def folder() -> Path:
    return Path(os.environ["ASCERTAIN_DATA"])


@pytest.mark.needs("data")
@pytest.mark.parametrize(("digest", "path"), [line.split() for line in FILES.strip().splitlines()])
def test_the_files_are_the_known_ones(digest: str, path: str) -> None:
    assert hashlib.sha256((folder() / path).read_bytes()).hexdigest() == digest


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", HERE)
def test_counts_are_those_of_the_source(name: str) -> None:
    shape, classes, actions, budgets, empty = HERE[name]
    dataset = here(name)
    x, y = dataset.draw(42)
    assert x.shape == shape
    assert tuple(np.bincount(y)) == classes
    assert dataset.problem.n_actions == actions
    assert dataset.budgets == budgets
    assert float(dataset.problem.budget) == budgets[-1]
    assert (dataset.name, dataset.metric) == (name, "macro_f1")
    if empty is not None:
        assert np.isnan(x).sum() == empty


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", HERE)
def test_parts_have_the_sizes_of_the_split(name: str) -> None:
    dataset = here(name)
    split = dataset.split(1)
    assert [len(part.y) for part in split] == SIZES[name]
    if dataset.stratified:
        np.testing.assert_array_equal(split.test.y, dataset.split(3).test.y)


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", HERE)
def test_holes_are_kept_but_where_the_reference_imputes(name: str) -> None:
    dataset = here(name)
    holes = sum(int((~np.asarray(part.available)).sum()) for part in dataset.split(0))
    assert holes == (0 if name in ("actg175", "heart_disease") else np.isnan(dataset.draw(0).x).sum())
    assert dataset.complete == (holes == 0)


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", HERE)
def test_no_feature_is_the_label(name: str) -> None:
    dataset = here(name)
    assert dataset.problem.feature_names is not None
    assert NEVER_FEATURES.isdisjoint(dataset.problem.feature_names)
    x, y = dataset.draw(42)
    for column in x.T:  # no threshold on a single feature tells the classes apart
        known = ~np.isnan(column)
        steps = np.diff(y[known][np.argsort(column[known], kind="stable")])
        assert (steps > 0).any()
        assert (steps < 0).any()


@pytest.mark.needs("data")
def test_heart_prices_are_turneys() -> None:
    listed = pd.read_csv(folder() / "heart_disease" / "turney_costs.csv").set_index("feature")["cost_cad"]
    assert listed.to_dict() == heart_disease.COSTS
    np.testing.assert_array_equal(here("heart_disease").problem.costs, listed.to_numpy(np.float32))


@pytest.mark.needs("data")
def test_heart_sites_have_their_own_holes() -> None:
    problem, (x, y) = here("heart_sites").problem, here("heart_sites").draw(0)
    assert problem.feature_names is not None
    missing = dict(zip(problem.feature_names, np.isnan(x).sum(axis=0).tolist(), strict=True))
    # As the sources list them, with the 1 and 172 zeros that are none.
    assert missing == dict.fromkeys(problem.feature_names, 0) | {
        "trestbps": 60,
        "chol": 202,
        "fbs": 90,
        "restecg": 2,
        "thalach": 55,
        "exang": 55,
        "oldpeak": 62,
        "slope": 309,
        "ca": 611,
        "thal": 486,
    }
    np.testing.assert_array_equal(x[:, 13:].sum(axis=0), [303, 294, 123, 200])
    np.testing.assert_array_equal(x[:, 13:].T @ y, [139, 106, 115, 149])
    assert problem.action_names is not None
    site = problem.action_names.index("site")
    np.testing.assert_array_equal(np.flatnonzero(problem.reveals[site]), [13, 14, 15, 16])
    assert float(problem.costs[site]) == 0.0


@pytest.mark.needs("data")
def test_a_constant_column_becomes_zero() -> None:
    dataset = here("actg175")
    assert dataset.problem.feature_names is not None
    column = dataset.problem.feature_names.index("zprior")
    assert all(not np.asarray(part.x)[:, column].any() for part in dataset.split(0))


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", ["actg175", "heart_disease"])
def test_the_reference_scales_over_all_rows(name: str) -> None:
    whole = np.concatenate([np.asarray(part.x, float) for part in here(name).split(0, AFABENCH)])
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-6)
    constant = whole.std(axis=0) == 0
    np.testing.assert_allclose(whole.std(axis=0)[~constant], 1, atol=1e-5)
    train = np.asarray(here(name).split(0).train.x, float)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(axis=0)[~constant], 1, atol=1e-5)


@pytest.mark.needs("data")
def test_nhanes_t2d_takes_refused_answers_for_missing() -> None:
    problem, (x, _) = here("nhanes_t2d").problem, here("nhanes_t2d").draw(0)
    assert problem.feature_names is not None
    columns = dict(zip(problem.feature_names, x.T, strict=True))
    answers = {"education": 5, "famhist_T2D": 2, "ever_hypertension": 2, "current_smoker": 3, "active": 3}
    for name, most in (answers | {"born_USA": 5}).items():
        assert np.isin(columns[name][~np.isnan(columns[name])], range(1, most + 1)).all()
    one_hot = np.column_stack([columns[name] for name in problem.feature_names if "ethnicity=" in name])
    assert one_hot.shape[1] == 5
    np.testing.assert_array_equal(one_hot.sum(axis=1), 1)
    assert problem.action_names is not None
    ethnicity = problem.action_names.index("ethnicity")
    np.testing.assert_array_equal(np.flatnonzero(problem.reveals[ethnicity]), [2, 3, 4, 5, 6])
    np.testing.assert_array_equal(problem.costs, 1)
    np.testing.assert_allclose(columns["weight"], columns["BMI"] * columns["height"] ** 2 / 1e4)


@pytest.mark.needs("data")
def test_physionet_has_no_complete_row_and_no_empty_one() -> None:
    known = ~np.isnan(here("physionet2012").draw(0).x)
    assert not known.all(axis=1).any()
    assert known.any(axis=1).all()


@pytest.mark.needs("data")
def test_nhanes_panels_and_prices_are_coais() -> None:
    schema = pd.read_csv(folder() / "nhanes_mortality" / "schema.csv")
    columns = nhanes_mortality.panel_columns(Path("schema.csv"), schema["feature_name"].tolist())
    for number, ((_, group), name) in enumerate(zip(schema.groupby("group_id"), columns, strict=True)):
        assert group["group_id"].unique().tolist() == [number]
        assert group["group_name"].unique().tolist() == [name]
        assert tuple(group["feature_name"]) == columns[name]
        np.testing.assert_allclose(nhanes_mortality.COSTS[name], group["feature_cost"].sum(), rtol=1e-9)
    listed = pd.read_csv(
        folder() / "nhanes_mortality" / "feature_costs.txt", sep="\t", header=None, na_values="?"
    )
    assert len(listed) == 35
    np.testing.assert_allclose(nhanes_mortality.UNKNOWN_COST, listed[1].mean() + 0.001, rtol=1e-9)


@pytest.mark.needs("data")
def test_nhanes_labels_are_the_known_ones() -> None:
    y = nhanes_mortality._read_labels(folder())
    assert np.bincount(y).tolist() == [3371, 10071]


def test_nhanes_i_prices() -> None:
    actions = actions_of(nhanes_i.FEATURES, nhanes_i.GROUPS)
    assert set(actions) == set(nhanes_i.COSTS)
    assert sum(cost == 0.001 for cost in nhanes_i.COSTS.values()) == 6
    paid = {name: round(cost, 3) for name, cost in nhanes_i.COSTS.items() if cost > 0.001}
    assert paid == {
        "Red blood cells": 3.351,
        "Sedimentation rate": 3.001,
        "Serum Albumin": 5.501,
        "Serum Cholesterol": 14.881,
        "Iron studies": 4.831,
        "Serum Magnesium": 4.831,
        "Serum Protein": 4.071,
        "White blood cells": 7.181,
    }


def overlap(costs: list[float], budget: float) -> float:
    """The mean Jaccard index of pairs of random routes that nothing can be added to."""
    rng = np.random.default_rng(0)
    routes = set()
    for _ in range(2000):
        spent, route = 0.0, []
        for action in rng.permutation(len(costs)):
            if spent + costs[action] <= budget + 1e-6:
                spent += costs[action]
                route.append(int(action))
        routes.add(frozenset(route))
    chosen = np.array([[action in route for action in range(len(costs))] for route in routes], float)
    both = chosen @ chosen.T
    sizes = chosen.sum(axis=1)
    either = sizes[:, None] + sizes[None] - both
    pairs = np.triu_indices(len(chosen), 1)
    return float((both / either)[pairs].mean())


@pytest.mark.parametrize(
    ("costs", "budget", "expected"),
    [  # what the specification computed from the reference's costs, to 0.003
        (cube().problem.costs.tolist(), 10, 0.341),
        (cube_nm().problem.costs.tolist(), 14, 0.163),
        (cube_nuc().problem.costs.tolist(), 7, 0.217),
        ([1.0] * 23, 10, 0.286),
        ([1.0] * diabetes.N_FEATURES, diabetes.BUDGETS[-1], 0.204),
        ([1.0] * len(miniboone.FEATURES), miniboone.BUDGETS[-1], 0.181),
        (list(nhanes_mortality.COSTS.values()), nhanes_mortality.BUDGETS[-1], 0.669),
        (list(heart_disease.COSTS.values()), heart_disease.BUDGETS[-1], 0.280),
    ],
)
def test_random_routes_overlap_as_in_the_reference(
    costs: list[float], budget: float, expected: float
) -> None:
    assert abs(overlap(costs, budget) - expected) < 0.003
