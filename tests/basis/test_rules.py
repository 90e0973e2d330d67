"""What theory asks for, against the formulas of the paper, evaluated by trying all numbers."""

import logging
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch.basis.fit import fit_rows
from nysketch.basis.options import BasisOptions
from nysketch.basis.rules import landmarks_by_rule, landmarks_by_theorem
from nysketch.columns import Column


@given(rows=st.integers(1, 10**12))
def test_the_rule_is_the_formula(rows):
    found = landmarks_by_rule(rows)
    assert 1 <= found <= rows
    assert found - 1 <= math.sqrt(rows) * math.log(math.sqrt(rows)) + 1e-6 and found >= min(
        math.sqrt(rows) * math.log(math.sqrt(rows)) - 1e-6, rows
    )


def test_the_rule_of_known_sizes():
    assert [landmarks_by_rule(n) for n in (0, 1, 2, 1000, 10**4, 10**6)] == [0, 1, 1, 110, 461, 6908]


def condition(m, norm_of_c, delta=0.05):
    """That of Theorem 4.1, with K = 1."""
    return m >= max(67, 12 / norm_of_c) * math.log(m / delta)


@given(mean_kernel=st.floats(0.005, 1))
def test_from_so_many_landmarks_on_the_condition_of_the_theorem_holds(mean_kernel):
    found = landmarks_by_theorem(10**9, mean_kernel, 1.0)
    assert not condition(found - 1, mean_kernel)
    assert all(condition(m, mean_kernel) for m in range(found, 20 * found, 1 + found // 7))


@pytest.mark.parametrize(
    ("rows", "mean_kernel", "mean_norm"), [(600, 0.9, 1.0), (10**6, 0.9, 1.2), (10**6, 0.0, 1.0)]
)
def test_where_the_theorem_says_nothing(rows, mean_kernel, mean_norm):
    assert landmarks_by_theorem(rows, mean_kernel, mean_norm) is None


def test_the_mean_kernel_is_at_most_the_largest_eigenvalue():
    """Which makes the condition sufficient."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    basis = nysketch.Basis.fit(X, landmarks=20)
    scaled = basis.transform(X)
    K = basis.kernel(scaled, scaled)
    assert K.mean() <= np.linalg.eigvalsh(K / 400)[-1]


def test_auto_reports_the_effective_dimension_and_the_rule(caplog):
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    options = BasisOptions(m="auto", kernel="matern32", max_landmarks=250)
    columns = [Column(f"x{i}") for i in range(3)]
    with caplog.at_level(logging.INFO, "nysketch"), pytest.warns(match="stopped at 250"):
        basis = fit_rows(rows, columns, options, of_rows=10**5)
    measured = basis.origin["held_out"]
    assert measured["of_rows"] == 10**5 and measured["rows"] == 600
    # Held-out rows are a permutation's first: N(λ) of any 600 rows is about the same.
    scaled = basis.transform(rows[:600])
    K = basis.kernel(scaled, scaled) / 600
    dimension = np.trace(np.linalg.solve(K + 1e-5 * np.eye(600), K))
    assert measured["effective_dimension"] == pytest.approx(dimension, rel=0.05)
    at_least = f"effective dimension at least {measured['effective_dimension']:.0f} at λ = 1/n"
    assert f"{at_least}; √n log √n = 1821 landmarks" in caplog.text
    assert "125 landmarks: projection error" in caplog.text and "(√n log √n = 1821)" in caplog.text
    facts = nysketch.info(basis)["quality"]
    assert facts["landmarks_rule"] == 1821 and facts["effective_dimension"] is not None


def test_info_says_what_theory_asks_for(tmp_path, run_cli):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    nysketch.save(nysketch.sketch(X, landmarks=50), tmp_path / "a.nysk")
    nysketch.save(nysketch.sketch(X, landmarks=50, sample_rows=0), tmp_path / "b.nysk")
    nysketch.save(nysketch.sketch(X, landmarks=50, features="fourier"), tmp_path / "f.nysk")
    rule = "√n log √n = 220 landmarks, if they are uniform"
    printed = run_cli("info", tmp_path / "a.nysk").stdout
    assert "projection error" in printed and "of 50 landmarks; sampling error" in printed
    assert f"{rule}; its bound holds from 63" in printed
    assert rule in run_cli("info", tmp_path / "b.nysk").stdout
    facts = nysketch.info(tmp_path / "f.nysk")
    assert facts["landmarks_rule"] is None and "√n" not in run_cli("info", tmp_path / "f.nysk").stdout
