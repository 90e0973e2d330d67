"""Estimators on tables of columns with kinds."""

import numpy as np
import pytest
from sklearn.base import clone

from nysketch.estimators import SketchedGaussianMixture, SketchedKMeans
from tests.models.mixed import KINDS, table


def test_clusters_of_a_frame():
    rows, cluster = table(800)
    frame = rows.to_pandas()
    frame["city"] = frame["city"].astype("category")
    estimator = clone(SketchedKMeans(3, kinds=KINDS, landmarks=40, random_state=0, trials=3)).fit(frame)
    assert (estimator.labels_ == cluster).mean() > 0.9
    assert np.array_equal(estimator.predict(frame), estimator.labels_)
    distances = estimator.transform(frame)
    assert np.array_equal(distances.argmin(axis=1), estimator.labels_)
    assert estimator.inertia_ == pytest.approx((distances.min(axis=1) ** 2).sum())
    assert -estimator.score(frame) == pytest.approx(estimator.inertia_)
    assert estimator.inertia_ <= estimator.inertia_bound_
    assert list(estimator.feature_names_in_) == frame.columns.tolist()
    assert estimator.fit_predict(frame) is estimator.labels_
    more = estimator.partial_fit(frame.head(100))
    assert more.sketch_.rows == 900
    again = SketchedKMeans(3, basis=estimator.sketch_, random_state=0, trials=3).fit(rows)
    assert again.sketch_.rows == 800


def test_mixtures_of_a_frame():
    rows, cluster = table(800)
    frame = rows.to_pandas()
    estimator = SketchedGaussianMixture(3, kinds=KINDS, landmarks=40, random_state=0, trials=3).fit(frame)
    assert (estimator.predict(frame) == cluster).mean() > 0.9
    shares = estimator.predict_proba(frame)
    assert np.allclose(shares.sum(axis=1), 1)
    assert estimator.score(frame) == pytest.approx(estimator.score_samples(frame).mean())
    assert np.isfinite(estimator.bic(frame))
    with pytest.raises(ValueError, match="drawn"):
        estimator.sample(3)


def test_weights_of_a_table_are_one_of_its_columns():
    rows, _ = table(300)
    frame = rows.to_pandas().assign(w=1.0)
    estimator = SketchedKMeans(2, kinds=KINDS, landmarks=20, random_state=0, trials=1)
    with pytest.raises(TypeError, match="tables with kinds"):
        estimator.fit(frame, sample_weight=np.ones(300))
    assert estimator.fit(frame, sample_weight="w").sketch_.weighted
