"""Every kind of kernel, for the suites to run over, and rows and bases for them."""

from __future__ import annotations

import numpy as np

from nysketch.basis.fourier import FourierBasis, draw_frequencies
from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import Column
from nysketch.kernels import (
    Cosine,
    Gaussian,
    GaussianSum,
    Group,
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


def product_of(*kernels):
    """A product over d features: as many groups as there are kernels, or features."""

    def make(d):
        parts = np.array_split(np.arange(d), min(d, len(kernels)))
        groups = [
            Group(f"g{i}", int(part[0]), int(part[-1]) + 1, kernel)
            for i, (part, kernel) in enumerate(zip(parts, kernels, strict=False))
        ]
        return Product(tuple(groups))

    return make


# Names to functions from the number of features to a kernel.
BOUNDED = {
    "gaussian": lambda d: Gaussian(1.3),
    "gaussian sum": lambda d: GaussianSum((0.7, 1.0, 4.0)),
    "laplacian-l1": lambda d: LaplacianL1(2.1),
    "laplacian-l2": lambda d: LaplacianL2(1.7),
    "matern32": lambda d: Matern32(1.9),
    "matern52": lambda d: Matern52(0.9),
    "product of gaussians": product_of(Gaussian(0.9), Gaussian(2.3)),
    "cosine": lambda d: Cosine(),
}
UNBOUNDED = {
    "linear": lambda d: Linear(),
    **{
        f"polynomial {degree} {offset}": lambda d, p=(degree, offset): Polynomial(1.4, *p)
        for degree in (1, 2, 3, 5)
        for offset in (0.0, 1.0)
    },
    "product of three": product_of(Gaussian(1.3), Linear(), LaplacianL1(2.1)),
}
NUMERIC = BOUNDED | UNBOUNDED
STRINGS = {
    **{f"spectrum {length}": lambda d, n=length: Spectrum(n) for length in (1, 2, 3)},
    **{
        f"subsequence {length} {decay}": lambda d, p=(length, decay): Subsequence(*p)
        for length in (1, 2, 3)
        for decay in (0.5, 1.0)
    },
}
KINDS = NUMERIC | STRINGS

# All values of these are positive: errors of sums are relative to the sums.
POSITIVE = tuple(name for name in BOUNDED if name != "cosine")


def numbers(count, d, seed=0):
    return np.random.default_rng(seed).standard_normal((count, d))


def strings(texts):
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


# Letters that look alike but are not, one that takes two UTF-16 words, and NUL.
ALPHABET = "aabc\N{COMBINING ACUTE ACCENT}é😀\x00"


def random_strings(count, seed=0, longest=7):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, longest + 1, count)
    return strings(["".join(random.choice(list(ALPHABET), n)) for n in lengths])


def rows_for(name, count, seed=0, d=5):
    """Return ordinary rows, then some that are difficult: equal ones, zeros or empty strings."""
    if name in STRINGS:
        rows = random_strings(count, seed)
        return np.concatenate([rows, rows[:3], strings(["", "a", "", "aaaaaa"])])
    rows = numbers(count, d, seed)
    return np.vstack([rows, rows[:3], np.zeros((2, d)), 2 * rows[:2]])


def basis_at(kernel, landmarks, *, center=0.0, scale=1.0):
    """A basis with these very landmarks."""
    d = landmarks.shape[1]
    columns = tuple(Column(f"x{i}") for i in range(d))
    center, scale = np.zeros(d) + center, np.ones(d) * scale
    return NystromBasis(
        columns=columns, scaling="none", center=center, scale=scale, kernel=kernel, landmarks=landmarks.copy()
    )


def fourier_basis(d, m, draw, *, center=0.0, scale=1.0, bandwidth=1.3, seed=0):
    frequencies = draw_frequencies(m // 2, d, draw, np.random.default_rng(seed)) / bandwidth
    return FourierBasis(
        columns=tuple(Column(f"x{i}") for i in range(d)),
        scaling="none",
        center=np.zeros(d) + center,
        scale=np.ones(d) * scale,
        kernel=Gaussian(bandwidth),
        frequencies=frequencies,
        draw=draw,
    )
