"""Mixtures of columns with kinds, beside EM on all rows that looks at one column after the other."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm, vonmises

import nysketch
from nysketch.errors import UsageError
from nysketch.models.files import load_model, save_model
from nysketch.models.mixed import concentration
from nysketch.models.mixture import MixtureModel
from tests.models.mixed import KINDS
from tests.models.mixed import table as mixed_table

VALUES = np.array(["a", "b", "c", "d"])
SHARES = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])
WEIGHTS = np.array([0.5, 0.3, 0.2])


def draw(rows, seed):
    """Draw rows of three components that overlap: x (some missing), y, a category, an hour."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, rows, p=WEIGHTS)
    codes = (rng.random(rows)[:, None] > np.cumsum(SHARES[z], axis=1)[:, :3]).sum(axis=1)
    x = rng.normal(np.array([0.0, 2.0, 4.0])[z], np.array([1.0, 0.7, 1.2])[z])
    x[rng.random(rows) < np.array([0.05, 0.3, 0.1])[z]] = np.nan
    y = rng.normal(100 + np.array([0.0, 20.0, -10.0])[z], 10)
    hour = (np.array([6.0, 12.0, 20.0])[z] + rng.normal(size=rows) * 2.5) % 24
    return x, y, codes, hour


def as_table(x, y, codes, hour):
    at = np.datetime64("2024-01-01", "s") + np.round(hour * 3600).astype(int)
    return pa.table({"x": pa.array(x, from_pandas=True), "y": y, "c": VALUES[codes], "at": at})


class SlowEM:
    """EM on all rows, started from the truth."""

    def __init__(self, x, y, codes, hour):
        angle = hour / 24 * 2 * np.pi
        self.w, self.shares = WEIGHTS, SHARES
        self.x, self.y = [(0.0, 1.0), (2.0, 0.7), (4.0, 1.2)], [(100.0, 10.0), (120.0, 10.0), (90.0, 10.0)]
        self.gone, self.angle = [0.05, 0.3, 0.1], [(1.57, 2.0), (3.14, 2.0), (5.2, 2.0)]
        known = ~np.isnan(x)
        for _ in range(60):
            log = self.log_joint(x, y, codes, hour)
            R = np.exp(log - np.logaddexp.reduce(log, axis=1)[:, None])
            self.w = R.mean(axis=0)
            for j, r in enumerate(R.T):
                self.shares = np.array([[R[codes == v, i].sum() for v in range(4)] for i in range(3)])
                self.shares /= self.shares.sum(axis=1, keepdims=True)
                self.gone[j] = r[~known].sum() / r.sum()
                self.x[j] = _moments(x[known], r[known])
                self.y[j] = _moments(y, r)
                cos, sin = r @ np.cos(angle) / r.sum(), r @ np.sin(angle) / r.sum()
                kappa = float(concentration(np.array([np.hypot(cos, sin)]))[0])
                self.angle[j] = (np.arctan2(sin, cos), kappa)

    def log_joint(self, x, y, codes, hour):
        angle, known = hour / 24 * 2 * np.pi, ~np.isnan(x)
        out = np.empty((len(x), 3))
        for j in range(3):
            out[:, j] = np.log(self.w[j]) + np.log(self.shares[j][codes]) + norm.logpdf(y, *self.y[j])
            out[:, j] += np.log(np.where(known, 1 - self.gone[j], self.gone[j]))
            out[known, j] += norm.logpdf(x[known], *self.x[j])
            out[:, j] += vonmises.logpdf(angle, self.angle[j][1], loc=self.angle[j][0])
        return out

    def log_likelihood(self, rows):
        return np.logaddexp.reduce(self.log_joint(*rows), axis=1).mean()


def _moments(values, weights):
    mean = weights @ values / weights.sum()
    return mean, np.sqrt(weights @ (values - mean) ** 2 / weights.sum())


@pytest.fixture(scope="module")
def learned():
    rows = draw(6000, 0)
    sketch = nysketch.sketch(
        as_table(*rows), kinds={"c": "category", "at": "hour"}, nulls="keep", landmarks=200, seed=1
    )
    return rows, sketch, nysketch.learn_gmm(sketch, 3, trials=4)


def test_a_sketch_is_as_good_as_em_on_all_rows(learned):
    rows, _, model = learned
    others = draw(6000, 1)
    on_rows = SlowEM(*rows).log_likelihood(others)
    assert -nysketch.score(model, as_table(*others)).mean_cost == pytest.approx(on_rows, abs=0.01)


def test_em_over_rows_ends_where_slow_em_does(learned):
    rows, sketch, _ = learned
    refined = nysketch.learn_gmm(sketch, 3, trials=4, refine=30, data=as_table(*rows))
    slow = SlowEM(*rows)
    assert -nysketch.score(refined, as_table(*rows)).mean_cost == pytest.approx(
        slow.log_likelihood(rows), abs=1e-3
    )
    assert np.allclose(refined.weights, np.sort(slow.w)[::-1], atol=0.02)
    # Every pass is better than the one before, but for the rows that the shares are drawn to.
    less = nysketch.learn_gmm(sketch, 3, trials=4, refine=3, data=as_table(*rows))
    assert less.facts["mean_log_likelihood"] <= refined.facts["mean_log_likelihood"] + 1e-6


def test_densities_are_products_of_those_of_columns(learned):
    _, _, model = learned
    x, y, codes, hour = draw(200, 2)
    hour = np.round(hour * 3600) / 3600
    slow = SlowEM.__new__(SlowEM)
    at = {name: i for i, name in enumerate(model.features)}
    means, variances = model.means, model.covariances
    neutral = next(column.kind.neutral for column in model.columns if column.name == "x")
    gone = means[:, at["x is missing"]]
    slow.w, slow.gone = model.weights, gone
    known = (means[:, at["x"]] - gone * neutral) / (1 - gone)
    slow.x = list(zip(known, np.sqrt(variances[:, at["x"]]), strict=True))
    slow.y = list(zip(means[:, at["y"]], np.sqrt(variances[:, at["y"]]), strict=True))
    slow.shares = np.column_stack([means[:, at[f"c={value}"]] for value in VALUES])
    cos, sin = means[:, at["cos(hour of at)"]], means[:, at["sin(hour of at)"]]
    slow.angle = list(zip(np.arctan2(sin, cos), concentration(np.hypot(cos, sin)), strict=True))
    log = slow.log_joint(x, y, codes, hour)
    table = as_table(x, y, codes, hour)
    assert np.allclose(model.log_densities(table), np.logaddexp.reduce(log, axis=1), atol=1e-8)
    assert np.array_equal(model.labels(table), log.argmax(axis=1))
    shares = np.exp(log - np.logaddexp.reduce(log, axis=1)[:, None])
    assert np.allclose(model.responsibilities(table), shares, atol=1e-8)
    assert np.allclose(nysketch.assign(model, table)["p0"], shares[:, 0], atol=1e-6)


def test_concentrations_have_the_radius_asked_for():
    from scipy.special import ive

    radius = np.array([0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 0.999999])
    kappa = concentration(radius)
    assert np.allclose(ive(1, kappa) / ive(0, kappa), radius, atol=1e-8)
    assert np.isfinite(concentration(np.array([1.0]))).all()


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_ugly_tables_have_mixtures_too(covariance, tmp_path):
    rows, _ = mixed_table(400)
    gone = pa.array([None] * 399 + [1.5], pa.float64())
    rows = rows.set_column(2, "x", gone)
    sketch = nysketch.sketch(rows, kinds=KINDS, nulls="keep", landmarks=40, seed=1)
    model = nysketch.learn_gmm(sketch, 4, covariance=covariance, trials=2)
    assert np.isfinite(model.log_densities(rows)).all()
    unseen = rows.slice(0, 2).set_column(0, "city", pa.array(["Paris", None]))
    assert np.isfinite(model.log_densities(unseen)).all()
    save_model(model, tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert isinstance(again, MixtureModel)
    assert np.array_equal(again.log_densities(rows), model.log_densities(rows))
    assert np.isfinite(nysketch.score(model, rows).bic)


def test_what_cannot_be_learned_is_refused(learned):
    rows, sketch, _ = learned
    with pytest.raises(UsageError, match="full"):
        nysketch.learn_gmm(sketch, 3, covariance="full")
    with pytest.raises(UsageError, match="clomp"):
        nysketch.learn_kmeans(sketch, 3, decoder="clomp")
    kinds = {"c": "category", "at": "hour"}
    without = nysketch.sketch(as_table(*rows), kinds=kinds, nulls="keep", landmarks=50, cells=False)
    with pytest.raises(UsageError, match="cells"):
        nysketch.learn_gmm(without, 3)
    assert nysketch.learn_kmeans(without, 3, trials=1).k == 3
