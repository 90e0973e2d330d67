"""What a file stores of a kernel: all of it, and nothing that is none."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.errors import NysketchError, UsageError
from nysketch.kernels import (
    KERNELS,
    Gaussian,
    GaussianSum,
    Group,
    Linear,
    Polynomial,
    Product,
    Spectrum,
    Subsequence,
    kernel_from_description,
)
from tests.kernels.kinds import KINDS

REFUSALS = (ValueError, KeyError, TypeError, NysketchError)

every = pytest.mark.parametrize("name", KINDS)


@every
def test_a_kernel_comes_back_from_its_description(name):
    kernel = KINDS[name](5)
    again = kernel_from_description(json.loads(json.dumps(kernel.describe(), allow_nan=False)))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert type(again) is type(kernel)
    assert again.describe() == kernel.describe()
    assert str(again) == str(kernel)


@given(st.floats(1e-49, 1e49))
def test_bandwidths_come_back_to_the_last_bit(bandwidth):
    text = json.dumps(Gaussian(bandwidth).describe())
    assert kernel_from_description(json.loads(text)).bandwidth == bandwidth


def parameters(about):
    """All numbers of a description but the places of groups."""
    for key, value in about.items():
        if key == "groups":
            for group in value:
                yield from parameters(group["kernel"])
        elif isinstance(value, list):
            yield from value
        elif key != "name":
            yield value


@every
def test_its_text_names_every_parameter(name):
    kernel = KINDS[name](5)
    for value in parameters(kernel.describe()):
        assert f"{value:g}" in str(kernel)
    groups = getattr(kernel, "groups", ())
    assert all(f"{group.name}: " in str(kernel) for group in groups)
    assert kernel.name.split()[0] in str(kernel)


@every
def test_kernels_are_values(name):
    assert KINDS[name](5) == KINDS[name](5)
    assert [other for other in KINDS if KINDS[other](5) == KINDS[name](5)] == [name]


def test_names_are_those_of_the_command_line():
    assert {KINDS[name](5).name for name in KINDS} - {"product"} == set(KERNELS)


GROUP = {"name": "g", "features": [0, 2], "kernel": {"name": "linear"}}
BAD = [
    {},
    {"name": None},
    {"name": []},
    {"name": "rbf"},
    {"name": "Gaussian", "bandwidth": 1.0},
    *({"name": name} for name in ("gaussian", "laplacian-l1", "matern52", "gaussian-sum", "polynomial")),
    *({"name": name} for name in ("spectrum", "subsequence", "product")),
    *(
        {"name": "gaussian", "bandwidth": value}
        for value in (None, "1", True, [1.0], {}, math.nan, math.inf, -math.inf, -1.0, 0, 0.0, 1e60, 1e-60)
    ),
    *(
        {"name": "gaussian-sum", "bandwidths": value}
        for value in ([], [1.0], [1.0, -1.0], [1.0, True], [1.0, None], [1.0, math.nan], 3.0, "12", None)
    ),
    *(
        {"name": "polynomial", "bandwidth": 1.0, "offset": 1.0, "degree": 2} | change
        for change in (
            {"bandwidth": -1.0},
            {"bandwidth": math.nan},
            {"degree": 0},
            {"degree": 2.0},
            {"degree": True},
            {"degree": "2"},
            {"degree": 17},
            {"offset": -1.0},
            {"offset": math.nan},
            {"offset": math.inf},
            {"offset": False},
        )
    ),
    *({"name": "spectrum", "length": value} for value in (0, -1, 33, 2.0, True, "2", None)),
    *(
        {"name": "subsequence", "length": 2, "decay": value}
        for value in (0.0, -0.5, 1.5, math.nan, True, "0.5", None)
    ),
    *({"name": "product", "groups": value} for value in ([], None, 3, "ab", [[]], [None], {}, [{}])),
    *(
        {"name": "product", "groups": groups}
        for groups in (
            [GROUP | {"features": [1, 2]}],  # a gap at the start
            [GROUP, GROUP | {"name": "h", "features": [3, 4]}],  # between
            [GROUP, GROUP | {"name": "h", "features": [1, 4]}],  # an overlap
            [GROUP, GROUP | {"name": "h", "features": [2, 2]}],  # no columns
            [GROUP | {"features": [0, -1]}],
            [GROUP, GROUP | {"features": [2, 4]}],  # the same name
            [GROUP | {"features": [0]}],
            [GROUP | {"features": [0, 1, 2]}],
            [GROUP | {"features": None}],
            [GROUP | {"features": [0, 2.0]}],
            [GROUP | {"features": [False, True]}],
            [GROUP | {"kernel": {"name": "spectrum", "length": 2}}],
            [GROUP | {"kernel": {"name": "product", "groups": [GROUP]}}],
            [GROUP | {"kernel": "linear"}],
            [{"name": "g", "features": [0, 2]}],
        )
    ),
]


@pytest.mark.parametrize("about", [*BAD, None, [], "gaussian", 3], ids=repr)
def test_what_is_no_kernel_is_refused(about):
    with pytest.raises(REFUSALS):
        kernel_from_description(about)


# fileformat.py catches these two as well, so that no file can crash; but `kernel_from_description` says
# that it raises "ValueError or a kin", which neither is.
def test_huge_whole_numbers_are_refused():
    with pytest.raises(REFUSALS):
        kernel_from_description({"name": "gaussian", "bandwidth": 10**400})


def test_a_deeply_nested_product_is_refused():
    about = {"name": "linear"}
    for _ in range(2000):
        about = {"name": "product", "groups": [GROUP | {"kernel": about}]}
    with pytest.raises(REFUSALS):
        kernel_from_description(about)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 40) | st.floats() | st.sampled_from(["", "linear", "median"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "kernel"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_any_change_of_a_description_is_refused_or_a_kernel(name, data):
    about = KINDS[name](5).describe()
    place = about
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if isinstance(place[key], dict | list) and data.draw(st.booleans()):
            place = place[key]
        else:
            break
    place[key] = data.draw(json_values)
    try:
        kernel = kernel_from_description(about)
    except REFUSALS:
        return
    assert kernel_from_description(kernel.describe()) == kernel
    assert all(math.isfinite(value) for value in parameters(kernel.describe()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(0.0),
        lambda: Gaussian(math.nan),
        lambda: GaussianSum((1.0,)),
        lambda: GaussianSum((1.0, -2.0)),
        lambda: Polynomial(-1.0),
        lambda: Polynomial(1.0, degree=0),
        lambda: Polynomial(1.0, offset=math.nan),
        lambda: Spectrum(0),
        lambda: Subsequence(33),
        lambda: Subsequence(2, 0.0),
        lambda: Product(()),
        lambda: Product((Group("a", 0, 1, Linear()), Group("b", 2, 3, Linear()))),
        lambda: Product((Group("a", 0, 1, Linear()), Group("a", 1, 3, Linear()))),
    ],
)
def test_impossible_kernels_cannot_be_made(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("make", [lambda: Polynomial(1.0, degree=2.5), lambda: Spectrum(2.5)])
def test_fractional_degrees_and_lengths_are_refused(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize(
    "kernel", [Polynomial(2, offset=1), Polynomial(1.0, 2, 0), Subsequence(2, 1), Gaussian(2)]
)
def test_whole_numbers_are_described_like_others(kernel):
    text = json.dumps(kernel.describe())
    assert json.dumps(kernel_from_description(json.loads(text)).describe()) == text
