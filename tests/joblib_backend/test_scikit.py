"""scikit-learn on the cluster: the same models as without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

import fibernb as fnb
import fibernb.joblib


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="fnb-") as directory:
        fibernb.joblib.register()
        fnb.init(workers=2, runtime_dir=directory, lease_s=5)
        yield
        fnb.shutdown()


X, y = load_digits(return_X_y=True)


def test_grid_search() -> None:
    grid = {"C": [1.0, 10.0], "gamma": [0.0005, 0.001]}
    with joblib.parallel_config(fibernb.joblib.NAME):
        found = GridSearchCV(SVC(), grid, cv=3).fit(X[:600], y[:600])
    alone = GridSearchCV(SVC(), grid, cv=3).fit(X[:600], y[:600])
    assert found.best_params_ == alone.best_params_
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_random_forest() -> None:
    with joblib.parallel_config(fibernb.joblib.NAME):
        forest = RandomForestClassifier(40, random_state=0, n_jobs=2).fit(X[:1200], y[:1200])
        score = forest.score(X[1200:], y[1200:])
    alone = RandomForestClassifier(40, random_state=0).fit(X[:1200], y[:1200])
    assert score == alone.score(X[1200:], y[1200:]) > 0.85


def test_a_forest_within_cross_validation() -> None:
    with joblib.parallel_config(fibernb.joblib.NAME):
        scores = cross_val_score(RandomForestClassifier(20, random_state=0, n_jobs=2), X[:600], y[:600], cv=3, n_jobs=2)
    assert scores.min() > 0.7
