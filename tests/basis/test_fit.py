"""From pilot rows to a basis: how many landmarks, which rows judge them, and what is remembered."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.basis import quality
from nysketch.basis.base import Basis
from nysketch.basis.fit import fit_rows
from nysketch.basis.fourier import draw_frequencies
from nysketch.basis.landmarks import SAMPLINGS
from nysketch.basis.options import DEFAULT_CAP, BasisOptions
from nysketch.columns import Column
from nysketch.errors import InputError, UsageError
from tests.disturbances import PATIENCE


def mixture(rows, d=3, seed=0):
    random = np.random.default_rng([9, seed])
    centres = 3 * random.standard_normal((5, d))
    return centres[random.integers(5, size=rows)] + random.standard_normal((rows, d))


def words(rows, seed=0):
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list("abcd"), random.integers(2, 9))) for _ in range(rows)]


def columns(d):
    return [Column(f"x{i}") for i in range(d)]


def fit(rows, *, of_rows=None, seed=0, **options):
    return fit_rows(rows, columns(rows.shape[1]), BasisOptions.of(options), seed=seed, of_rows=of_rows)


# ---- the number of landmarks -----------------------------------------------------------------------


def is_good(tried):
    return tried["projection_error"] + tried["projection_error_se"] <= tried["sampling_error"]


@pytest.mark.parametrize("sampling", ["uniform", "kmeans++", "rpcholesky"])
@pytest.mark.parametrize("kernel", ["gaussian", "matern32"])
def test_auto_doubles_until_the_error_is_below_that_of_the_sampling(sampling, kernel):
    basis = fit(mixture(6000), m="auto", sampling=sampling, kernel=kernel, of_rows=50_000)
    tries = basis.origin["auto"]
    assert [tried["landmarks"] for tried in tries] == [125 * 2**i for i in range(len(tries))]
    assert not any(map(is_good, tries[:-1]))
    assert is_good(tries[-1])
    assert basis.m == tries[-1]["landmarks"] < DEFAULT_CAP
    if kernel == "matern32":
        assert len(tries) > 1


def test_auto_stops_at_the_cap():
    rows = mixture(5000, d=6)
    for cap in (40, 125, 300):
        basis = fit(rows, m="auto", kernel="laplacian-l2", max_landmarks=cap, of_rows=10**9)
        tries = basis.origin["auto"]
        assert [tried["landmarks"] for tried in tries] == sorted(
            {min(125, cap), *([250, 300][: 2 * (cap > 250)])}
        )
        assert not is_good(tries[-1])
        assert basis.m == cap


def test_auto_stops_where_there_are_no_more_different_rows():
    rows = np.repeat(mixture(60), 100, axis=0)
    basis = fit(rows, m="auto", of_rows=10**9, kernel="laplacian-l2", bandwidth="0.1*median")
    assert len(basis.origin["auto"]) == 1
    assert 40 < basis.m <= 60
    assert len(np.unique(basis.landmarks, axis=0)) == basis.m


def test_auto_judges_by_the_rows_it_held_out():
    """What is recorded of the last try is what was measured for the basis."""
    basis = fit(mixture(6000), m="auto", of_rows=10**5)
    last, held_out = basis.origin["auto"][-1], basis.origin["held_out"]
    assert held_out["rows"] == 1200  # a fifth
    assert held_out["of_rows"] == 10**5
    assert {name: held_out[name] for name in last} == last


def test_auto_is_deterministic():
    rows = mixture(6000)
    a, b = (fit(rows, m="auto", kernel="matern32", of_rows=10**5) for _ in range(2))
    assert (a.digest, a.origin) == (b.digest, b.origin)
    other = fit(rows, m="auto", kernel="matern32", of_rows=10**5, seed=1)
    assert other.digest != a.digest


@pytest.mark.slow
def test_auto_wants_more_landmarks_for_more_rows():
    rows = mixture(8000)
    chosen = [fit(rows, m="auto", kernel="matern32", of_rows=n).m for n in (8000, 10**6)]
    assert chosen[0] < chosen[1]


@pytest.mark.parametrize("rows", [1, 50, 99])
def test_auto_takes_what_it_can_get_if_there_are_too_few_rows_to_judge_by(rows, caplog):
    basis = fit(mixture(rows), m="auto", max_landmarks=10)
    assert basis.m == min(rows, 10)
    assert f"{rows} rows are too few to choose the number of landmarks" in caplog.text


@pytest.mark.parametrize("rows", [600, 1500, 2019])
def test_auto_works_for_tables_no_larger_than_its_default_cap(rows):
    assert fit(mixture(rows), m="auto").m <= rows


@pytest.mark.parametrize("wrong", ["many", "", "12"])
def test_a_number_of_landmarks_is_a_number_or_auto(wrong):
    with pytest.raises(UsageError, match="a number or 'auto'"):
        BasisOptions(m=wrong)


# ---- rows that judge -------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch):
    """The scaled rows of every measurement."""
    seen, measure = [], quality.measure

    def watching(basis, scaled, weights, **options):
        seen.append(scaled)
        return measure(basis, scaled, weights, **options)

    monkeypatch.setattr(quality, "measure", watching)
    return seen


@pytest.mark.parametrize("m", [100, "auto"])
@pytest.mark.parametrize("sampling", [name for name in SAMPLINGS if name != "kmeans"])
def test_rows_held_out_are_never_landmarks(sampling, m, measured):
    rows = mixture(1000)
    basis = fit(rows, m=m, sampling=sampling, max_landmarks=500, of_rows=10**6, kernel="matern32")
    held_out = {row.tobytes() for row in measured[-1]}
    assert len(held_out) == 200
    scaled = (rows - basis.center) / basis.scale
    assert held_out <= {row.tobytes() for row in scaled}
    assert not held_out & {row.tobytes() for row in basis.scaled_landmarks}
    assert {row.tobytes() for row in basis.landmarks} <= {row.tobytes() for row in rows}


def test_text_held_out_is_never_a_landmark(measured):
    texts = np.array([f"{i:04d}{word}" for i, word in enumerate(words(1000))], object)
    options = BasisOptions(m=100, kernel="spectrum")
    basis = fit_rows(texts, [Column("t", text=True)], options)
    assert len(measured[-1]) == 200
    assert not set(measured[-1]) & set(basis.landmarks)


@pytest.mark.parametrize(
    ("rows", "m", "held_out"),
    [(1000, 100, 200), (20_000, 100, 2000), (1000, 970, 30), (1000, 990, 0), (90, 10, 0), (100, 10, 20)],
)
def test_landmarks_come_first_and_a_fifth_is_held_out_at_most(rows, m, held_out):
    basis = fit(mixture(rows), m=m, sampling="uniform")
    assert basis.m == m
    assert basis.origin.get("held_out", {"rows": 0})["rows"] == held_out
    assert basis.origin["pilot_rows"] == rows


def test_held_out_rows_are_drawn_anew_with_every_seed(measured):
    for seed in (0, 0, 1):
        fit(mixture(1000), m=50, seed=seed)
    first, again, other = measured
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# ---- awkward tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(np.repeat(mixture(7), 60, axis=0), id="duplicates"),
        pytest.param(np.full((200, 2), 3.25), id="constant"),
        pytest.param(np.zeros((200, 2)), id="zeros"),
        pytest.param(mixture(8), id="fewer than landmarks"),
        pytest.param(mixture(1), id="one"),
        pytest.param(np.full((300, 1), 1e15), id="large and constant"),
    ],
)
def test_awkward_tables_give_a_basis_and_a_sketch(sampling, rows):
    basis = Basis.fit(rows, landmarks=20, sampling=sampling)
    assert 1 <= basis.m <= min(20, len(rows))
    assert np.isfinite(basis.landmarks).all() and (basis.scale > 0).all()
    if sampling not in ("uniform", "leverage"):  # which may draw the twin of a row, too
        assert basis.m <= len(np.unique(rows, axis=0))
    made = nysketch.sketch(rows, basis=basis)
    assert made.rows == len(rows)
    assert 1 <= made.rank <= basis.m
    found = made.quality()
    assert found is None or found.projection_error <= 1
    json.dumps(basis.origin, allow_nan=False)


@pytest.mark.parametrize("kernel", ["linear", "cosine", "polynomial"])
def test_a_table_of_zeros_has_nothing_to_tell(kernel):
    made = nysketch.sketch(np.zeros((100, 2)), landmarks=10, kernel=kernel)
    assert made.rows == 100
    assert np.isfinite(made.kernel_sums).all()
    assert np.isfinite(made.mean_features()).all()
    json.dumps(made.basis.origin, allow_nan=False)


def test_no_rows_are_an_error():
    with pytest.raises(InputError, match="no rows to choose landmarks from"):
        fit(np.empty((0, 2)))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_centres_of_kmeans_are_within_the_data(offset):
    rows = mixture(3000) * [1, 100, 1e-3] + offset
    basis = Basis.fit(rows, landmarks=50, sampling="kmeans")
    assert basis.m == 50
    slack = 1e-9 * np.abs(rows).max(axis=0)
    assert (basis.landmarks >= rows.min(axis=0) - slack).all()
    assert (basis.landmarks <= rows.max(axis=0) + slack).all()
    # They spread over the data in its own units; and are none of its rows.
    assert (np.ptp(basis.landmarks, axis=0) > 0.3 * np.ptp(rows, axis=0)).all()
    assert not {row.tobytes() for row in basis.landmarks} & {row.tobytes() for row in rows}


# ---- every sampling, numbers and text; what a file remembers ---------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitting")
    rows = mixture(800)
    numbers = pa.table({f"x{i}": column for i, column in enumerate(rows.T)})
    pq.write_table(numbers, folder / "numbers.parquet", row_group_size=100)
    pq.write_table(pa.table({"t": words(800)}), folder / "text.parquet", row_group_size=100)
    return folder


REPORTS = {
    "uniform": set(),
    "kmeans++": {"mean_squared_distance"},
    "kmeans": {"mean_squared_distance"},
    "leverage": {"lambda", "effective_dimension", "scores"},
    "greedy": {"residual_trace"},
    "rpcholesky": {"residual_trace"},
}


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_every_sampling_of_numbers_and_text(tables, tmp_path, sampling, kind):
    options = {"landmarks": 20, "sampling": sampling} | ({"kernel": "spectrum"} if kind == "text" else {})
    path = tables / f"{kind}.parquet"
    if (kind, sampling) == ("text", "kmeans"):
        with pytest.raises(UsageError, match=r"kmeans\+\+"):
            Basis.fit(path, **options)
        return
    digests = {Basis.fit(path, threads=threads, **options).digest for threads in (1, 2, 4)}
    assert len(digests) == 1
    basis = Basis.fit(path, **options)
    assert basis.m == 20
    assert set(basis.origin["sampling_report"]) == REPORTS[sampling]
    assert basis.origin["sampling"] == sampling
    assert basis.origin == json.loads(json.dumps(basis.origin, allow_nan=False))
    for thing in (basis, nysketch.sketch(path, basis=basis)):
        nysketch.save(thing, tmp_path / "thing.nysk")
        loaded = nysketch.load(tmp_path / "thing.nysk")
        loaded = loaded if isinstance(loaded, Basis) else loaded.basis
        assert (loaded.digest, loaded.origin) == (basis.digest, basis.origin)


@pytest.mark.parametrize(
    "features", [{"landmarks": "auto", "max_landmarks": 250}, {"features": "fourier", "landmarks": 40}]
)
def test_other_origins_round_trip_through_files(tables, tmp_path, features):
    basis = Basis.fit(tables / "numbers.parquet", **features)
    assert basis.origin == json.loads(json.dumps(basis.origin, allow_nan=False))
    nysketch.save(basis, tmp_path / "basis.nysk")
    assert nysketch.load(tmp_path / "basis.nysk").origin == basis.origin
    assert ("auto" in basis.origin) == (features["landmarks"] == "auto")


SCRIPT = """
import sys
from nysketch.basis.base import Basis
from nysketch.basis.landmarks import SAMPLINGS
for sampling in SAMPLINGS:
    print(sampling, Basis.fit(sys.argv[1], landmarks=60, sampling=sampling).digest)
print("auto", Basis.fit(sys.argv[1], landmarks="auto", max_landmarks=250, kernel="matern32").digest)
print("fourier", Basis.fit(sys.argv[1], landmarks=60, features="fourier").digest)
"""


@pytest.mark.slow
def test_the_threads_of_libraries_do_not_show(tables, cli_command):
    seen = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = cli_command[1] | dict.fromkeys(names, threads)
        command = [sys.executable, "-c", SCRIPT, str(tables / "numbers.parquet")]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
        assert result.returncode == 0, result.stderr
        assert len(result.stdout.splitlines()) == len(SAMPLINGS) + 2
        seen.add(result.stdout)
    assert len(seen) == 1


def test_the_origin_does_not_enter_the_digest(tables):
    basis = Basis.fit(tables / "numbers.parquet", landmarks=20)
    assert replace(basis, origin={}) == basis


# ---- Fourier ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 20])
def test_gaussian_frequencies_are_the_spectrum_of_the_kernel(d):
    drawn = draw_frequencies(20_000, d, "gaussian", np.random.default_rng(0))
    assert np.allclose(drawn.mean(axis=0), 0, atol=0.04)
    assert np.allclose(np.cov(drawn.T), np.eye(d), atol=0.05)


@pytest.mark.parametrize("d", [1, 3, 20])
def test_adapted_radii_have_their_density(d):
    drawn = draw_frequencies(20_000, d, "adapted-radius", np.random.default_rng(0))
    radii = np.sort(np.linalg.norm(drawn, axis=1))
    grid = np.linspace(0, 12, 100_001)
    density = np.sqrt(grid**2 + grid**4 / 4) * np.exp(-(grid**2) / 2)
    cumulative = np.cumsum(density) / density.sum()
    expected = np.interp(radii, grid, cumulative)
    assert np.abs(expected - np.arange(len(radii)) / len(radii)).max() < 1.9 / np.sqrt(len(radii))
    directions = drawn / np.linalg.norm(drawn, axis=1)[:, None]
    assert np.abs(directions.mean(axis=0)).max() < 0.04


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"m": 7}, "must be even, not 7"),
        ({"m": "auto"}, '`landmarks="auto"` cannot choose'),
        ({"m": 8, "kernel": "linear"}, "gaussian kernel with one bandwidth"),
        ({"m": 8, "bandwidth": "1,2"}, "gaussian kernel with one bandwidth"),
        ({"m": 8, "groups": {"a": ["x"]}}, "gaussian kernel with one bandwidth"),
    ],
)
def test_what_fourier_features_are_not_for(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        BasisOptions(features="fourier", **options)


def test_a_basis_remembers_the_effective_dimension_of_its_rows():
    # Three points far apart, in equal shares: three eigenvalues of 1/3 each, at λ = 1/n.
    n = 6000
    rows = np.repeat([[0.0], [1.0], [2.0]], n // 3, axis=0)
    made = nysketch.Basis.fit(rows, landmarks=3, scale="none", bandwidth=0.01)
    found = made.origin["held_out"]["effective_dimension"]
    assert found == pytest.approx(3 * (1 / 3) / (1 / 3 + 1 / n), rel=1e-3)
