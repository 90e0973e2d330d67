"""Kernels: values between rows, in float64, their gradients, and what must be stored to rebuild them.

base.py            what every kernel offers
radial.py          of the distance: Gaussian, sums of Gaussians, Laplacian, Matérn
dot.py             of the scalar product: linear, polynomial, cosine
product.py         products over groups of columns
strings.py         of strings: spectrum, subsequence
_subsequences.py   the inner loop of the latter, compiled
boxes.py           the smallest and largest values at rows within ranges of columns
bandwidths.py      the median distance of rows, and finer bandwidths where rows lie in clumps
options.py         from names and pilot rows to a kernel; from what a file holds to a kernel

Rows arrive here scaled (see basis/base.py). The fast evaluation inside the pass is the business of tiles/
and is tested against this package.
"""

from nysketch.kernels.base import Kernel
from nysketch.kernels.dot import Cosine, Linear, Polynomial
from nysketch.kernels.options import KERNELS, TEXT_KERNELS, KernelOptions, kernel_from_description
from nysketch.kernels.product import Group, Product, gaussian_bandwidths
from nysketch.kernels.radial import Gaussian, GaussianSum, LaplacianL1, LaplacianL2, Matern32, Matern52
from nysketch.kernels.strings import Spectrum, Subsequence

__all__ = [
    "KERNELS",
    "TEXT_KERNELS",
    "Cosine",
    "Gaussian",
    "GaussianSum",
    "Group",
    "Kernel",
    "KernelOptions",
    "LaplacianL1",
    "LaplacianL2",
    "Linear",
    "Matern32",
    "Matern52",
    "Polynomial",
    "Product",
    "Spectrum",
    "Subsequence",
    "gaussian_bandwidths",
    "kernel_from_description",
]
