"""From what the user asked for to a kernel: bandwidths, groups of columns, and what is refused."""

import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch.basis.options import BasisOptions
from nysketch.errors import NysketchError, SchemaError, UsageError
from nysketch.kernels import (
    KERNELS,
    TEXT_KERNELS,
    Cosine,
    Gaussian,
    GaussianSum,
    KernelOptions,
    LaplacianL1,
    LaplacianL2,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    Product,
    Spectrum,
    Subsequence,
)
from nysketch.kernels.bandwidths import median_distance
from nysketch.kernels.options import parse_bandwidth
from tests import naive
from tests.kernels.kinds import numbers, strings

# ---- bandwidths ------------------------------------------------------------------------------------


def parsed(text):
    return [(term.factor, term.of_median) for term in parse_bandwidth(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("median", [(1.0, True)]),
        (" median ", [(1.0, True)]),
        ("2.5", [(2.5, False)]),
        ("1e-3", [(0.001, False)]),
        ("0.5*median", [(0.5, True)]),
        ("3 *median", [(3.0, True)]),
        ("0.5*median,median, 2*median", [(0.5, True), (1.0, True), (2.0, True)]),
        ("1,median", [(1.0, False), (1.0, True)]),
    ],
)
def test_bandwidths(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            ",",
            "1,",
            ",1",
            "1,,2",
            "mean",
            "Median",
            "*median",
            "median*2",
            "0.5**median",
            "median median",
        ),
        *("0", "-1", "-0.0", "nan", "inf", "-inf", "0*median", "nan*median", "-2*median", "inf*median"),
        *("1e60", "1e-60", "0x10", "1;2", "1 2", "*", "**", "2*", "1*2*median", "2*Median", "½"),
    ],
)
def test_what_is_no_bandwidth(text):
    with pytest.raises(UsageError, match="bandwidth"):
        parse_bandwidth(text)


terms = st.tuples(st.floats(1e-40, 1e40), st.booleans())


@given(st.lists(terms, min_size=1, max_size=5), st.sampled_from(["", " ", "  "]))
def test_bandwidths_come_back_from_their_text(wanted, space):
    text = f"{space},{space}".join(f"{factor!r}*median" if of else repr(factor) for factor, of in wanted)
    assert parsed(text) == wanted


@given(st.text() | st.text(alphabet="0123456789.e+-*,median infna", max_size=14))
def test_any_text_is_a_bandwidth_or_refused(text):
    try:
        found = parse_bandwidth(text)
    except UsageError:
        return
    assert len(found) == text.count(",") + 1
    assert all(1e-50 < term.factor < 1e50 for term in found)


def median_by_definition(rows, distance):
    found = sorted(d for d in (distance(x, y) for x, y in combinations(rows.tolist(), 2)))
    return (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2


def absolute(x, y):
    return sum(abs(a - b) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize(
    ("name", "kind", "distance"),
    [
        ("gaussian", Gaussian, math.dist),
        ("laplacian-l1", LaplacianL1, absolute),
        ("laplacian-l2", LaplacianL2, math.dist),
        ("matern32", Matern32, math.dist),
        ("matern52", Matern52, math.dist),
        ("polynomial", Polynomial, math.dist),
    ],
)
def test_the_median_is_that_of_the_kernels_own_distance(name, kind, distance):
    rows = numbers(60, 4)
    median = median_by_definition(rows, distance)
    for text, factor in (("median", 1), ("0.5*median", 0.5), ("3*median", 3)):
        kernel = KernelOptions(kernel=name, bandwidth=text).fit(rows, {}, 0)
        assert type(kernel) is kind
        assert kernel.bandwidth == pytest.approx(factor * median)
    assert KernelOptions(kernel=name, bandwidth="0.3").fit(rows, {}, 0).bandwidth == 0.3


def test_the_median_of_duplicates_and_of_one_row():
    assert median_distance(np.ones((5, 2)), 0) == 1.0
    assert median_distance(np.ones((1, 2)), 0) == 1.0
    rows = np.zeros((20, 1))
    rows[0], rows[1] = 3.0, 3.5  # 18 pairs at 3.5 and at 3 each, one at 0.5, all others at 0
    assert median_distance(rows, 0) == 3.0


def test_the_median_of_many_rows_is_that_of_a_sample():
    rows = numbers(4000, 2)
    some, others = median_distance(rows, 0), median_distance(rows, 1)
    assert some == median_distance(rows, 0)
    assert some != others
    assert some == pytest.approx(2 * math.sqrt(math.log(2)), rel=0.05)


def test_several_bandwidths_make_a_sum_of_gaussians():
    rows = numbers(40, 3)
    median = median_by_definition(rows, math.dist)
    kernel = KernelOptions(bandwidth="0.5*median, 2, median").fit(rows, {}, 0)
    assert isinstance(kernel, GaussianSum)
    assert kernel.bandwidths == pytest.approx((0.5 * median, 2.0, median))


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "gaussian"])
def test_several_bandwidths_are_for_the_gaussian_kernel_only(name):
    with pytest.raises(UsageError, match=name):
        KernelOptions(kernel=name, bandwidth="1,2")


@pytest.mark.parametrize("name", ["linear", "cosine", *TEXT_KERNELS])
@pytest.mark.parametrize("bandwidth", ["1.0", "0.5*median"])
def test_kernels_without_a_bandwidth_take_none(name, bandwidth):
    with pytest.raises(UsageError, match=f"the {name} kernel has no bandwidth"):
        KernelOptions(kernel=name, bandwidth=bandwidth)


def test_kernels_without_a_bandwidth():
    rows, texts = numbers(10, 2), strings(["abc", "abd"])
    assert KernelOptions(kernel="linear").fit(rows, {}, 0) == Linear()
    assert KernelOptions(kernel="cosine").fit(rows, {}, 0) == Cosine()
    assert KernelOptions(kernel="spectrum", length=4).fit(texts, {}, 0) == Spectrum(4)
    assert KernelOptions(kernel="subsequence", length=2, decay=0.25).fit(texts, {}, 0) == Subsequence(2, 0.25)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf"},
        {"kernel": "product"},
        {"kernel": "gaussian-sum"},
        {"kernel": ""},
        {"degree": 0},
        {"degree": 17},
        {"offset": -1.0},
        {"offset": math.nan},
        {"length": 0},
        {"length": 33},
        {"decay": 0.0},
        {"decay": 1.1},
        {"decay": math.nan},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused_at_once(options):
    with pytest.raises(UsageError):
        KernelOptions(**options)
    with pytest.raises(UsageError):
        BasisOptions(**options)


# ---- groups ----------------------------------------------------------------------------------------

GROUPS = {"place": ["x", "y"], "time": ["t"]}


def table(rows=200):
    random = np.random.default_rng(0)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=3 * rows)), 3)
    return pa.table(
        {
            "t": random.normal(5, 2, rows),
            "x": random.normal(size=rows),
            "e": vectors,
            "y": random.normal(0, 9, rows),
            "s": [f"text {i % 7}" for i in range(rows)],
        }
    )


def kernel_of(**options):
    return nysketch.Basis.fit(table(), landmarks=10, threads=1, **options).kernel


def test_groups_have_their_own_medians():
    rows = numbers(50, 3)
    kernel = KernelOptions(groups=GROUPS).fit(rows, {"x": 1, "y": 1, "t": 1}, 0)
    assert isinstance(kernel, Product)
    assert [(g.name, g.start, g.stop) for g in kernel.groups] == [("place", 0, 2), ("time", 2, 3)]
    for group in kernel.groups:
        assert group.kernel.bandwidth == pytest.approx(median_by_definition(group.of(rows), math.dist))


def test_kernels_and_bandwidths_by_group():
    rows = numbers(50, 4)
    options = KernelOptions(
        kernel={"place": "laplacian-l1", "": "matern32", "other": "linear"},
        bandwidth={"time": "2.5", "place": "0.5*median"},
        groups=GROUPS | {"other": ["z"]},
    )
    place, time, other = options.fit(rows, dict.fromkeys("xytz", 1), 0).groups
    assert place.kernel == LaplacianL1(0.5 * median_distance(rows[:, :2], 0, metric="cityblock"))
    assert time.kernel == Matern32(2.5)
    assert other.kernel == Linear()


def test_groups_that_are_not_named_have_the_defaults():
    options = KernelOptions(kernel={"time": "cosine"}, bandwidth={"place": "3,4"}, groups=GROUPS)
    place, time = options.fit(numbers(20, 3), dict.fromkeys("xyt", 1), 0).groups
    assert place.kernel == GaussianSum((3.0, 4.0))
    assert time.kernel == Cosine()


def test_the_order_of_features_is_that_of_the_groups():
    basis = nysketch.Basis.fit(table(), landmarks=10, groups={"b": ["y"], "a": ["t", "x"]}, threads=1)
    assert [column.name for column in basis.columns] == ["y", "t", "x"]
    assert [(g.name, g.start, g.stop) for g in basis.kernel.groups] == [("b", 0, 1), ("a", 1, 3)]


@pytest.mark.parametrize("kernel", ["gaussian", {"vector": "laplacian-l1", "scalar": "linear"}], ids=str)
def test_list_columns_are_as_wide_as_their_lists(kernel):
    data = table()
    groups = {"vector": ["e", "x"], "scalar": ["y"]}
    sketch = nysketch.sketch(data, landmarks=15, groups=groups, kernel=kernel, threads=1)
    made = sketch.basis.kernel
    assert [(g.name, g.start, g.stop) for g in made.groups] == [("vector", 0, 4), ("scalar", 4, 5)]
    rows = np.column_stack([np.stack(data["e"].to_numpy()), data["x"].to_numpy(), data["y"].to_numpy()])
    scaled = (rows - sketch.basis.center) / sketch.basis.scale
    values = naive.kernel_matrix(made.describe(), scaled, sketch.basis.scaled_landmarks)
    error = np.abs(sketch.kernel_sums - values.sum(axis=0)) / np.abs(values).sum(axis=0)
    assert error.max() < 1e-5


@pytest.mark.parametrize("option", ["kernel", "bandwidth"])
def test_unknown_groups(option):
    value = {"kernel": "linear", "bandwidth": "2"}[option]
    with pytest.raises(UsageError, match="`groups` has no 'nowhere'"):
        KernelOptions(**{option: {"nowhere": value}}, groups=GROUPS)
    with pytest.raises(UsageError, match="`groups` has no 'place'"):
        KernelOptions(**{option: {"place": value}})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kernel": {"time": "linear"}, "bandwidth": {"time": "2"}}, "the linear kernel has no bandwidth"),
        (
            {"kernel": {"time": "matern32"}, "bandwidth": {"time": "2,3"}},
            "need the gaussian kernel, not matern32",
        ),
        ({"kernel": {"time": "nothing"}}, "not 'nothing'"),
        ({"kernel": {"": "nothing"}}, "not 'nothing'"),
        ({"bandwidth": {"time": "never"}}, "not 'never'"),
        ({"kernel": "spectrum"}, "one text column, not groups"),
        ({"kernel": {"time": "subsequence"}}, "one text column, not groups"),
    ],
    ids=str,
)
def test_groups_are_checked_like_single_kernels(options, says):
    with pytest.raises(UsageError, match=says):
        KernelOptions(groups=GROUPS, **options)


@pytest.mark.parametrize(
    "groups", [{"a": []}, {"a": ["x"], "b": []}, {"a": ["x"], "b": ["x"]}, {"a": ["x", "x"]}], ids=str
)
def test_groups_without_columns_or_with_the_same_ones(groups):
    with pytest.raises(NysketchError):
        kernel_of(groups=groups)


def test_columns_of_groups_must_exist_and_may_be_categories():
    with pytest.raises(SchemaError, match="'nosuch'"):
        kernel_of(groups={"a": ["x", "nosuch"]})
    (group,) = kernel_of(groups={"a": ["x", "s"]}).groups
    assert group.stop - group.start > 2  # a number, and an indicator of each value of a category


def test_groups_say_which_columns_to_read():
    with pytest.raises(UsageError, match="leave out `columns`"):
        kernel_of(groups=GROUPS, columns=["x"])
    assert kernel_of(groups={}) == kernel_of()


def test_numbers_are_bandwidths_too():
    assert kernel_of(columns=["x"], bandwidth=2) == Gaussian(2.0)
    assert kernel_of(columns=["x"], bandwidth=0.25) == Gaussian(0.25)
    assert kernel_of(columns=["x"], bandwidth=[1, 2.5]) == GaussianSum((1.0, 2.5))
    assert kernel_of(columns=["x"], bandwidth=(1, "2*median")).bandwidths[0] == 1.0


def test_numbers_are_bandwidths_of_groups_too():
    place, time = kernel_of(groups=GROUPS, bandwidth={"place": 2.0, "time": 3}).groups
    assert (place.kernel, time.kernel) == (Gaussian(2.0), Gaussian(3.0))


def test_the_kernel_of_no_group_does_not_matter():
    kernel = {"place": "gaussian", "time": "linear", "": "spectrum"}
    assert not KernelOptions(kernel=kernel, groups=GROUPS).text


# ---- Fourier features ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kernel": "laplacian-l1"}, "gaussian kernel"),
        ({"kernel": "linear"}, "gaussian kernel"),
        ({"kernel": "spectrum"}, "gaussian kernel"),
        ({"bandwidth": "1,2"}, "one bandwidth"),
        ({"bandwidth": [1.0, 2.0]}, "one bandwidth"),
        ({"groups": GROUPS}, "gaussian kernel"),
        ({"m": "auto"}, "auto"),
        ({"m": 101}, "even"),
        ({"frequencies": "sobol"}, "frequencies"),
    ],
    ids=str,
)
def test_restrictions_of_fourier_features(options, says):
    with pytest.raises(UsageError, match=says):
        BasisOptions.of({"features": "fourier"} | options)


def test_unknown_options_are_named():
    with pytest.raises(UsageError, match="bandwith"):
        BasisOptions.of({"bandwith": 2})


def test_features_must_be_known():
    with pytest.raises(UsageError, match="`features` must be one of nystrom, fourier"):
        BasisOptions(features="random")
