"""How good is a sketch? Residuals, projection error against sampling error, and what to do about it.

It is measured on a held-out part of the pilot when a basis is made, and afterwards on the sample that every
sketch carries: of all its rows, landmarks among them as often as they are among the rows.

The residual of a row, √(k(x,x) − k_Z(x,x)), is how far it is from what the landmarks can express. The
projection error |μ̂ − μ̂_m| is the same for the mean of all rows, usually far smaller, because residuals
point in all directions; its square is the mean of h(x, y) = k(x,y) − k_Z(x,y) over all pairs of rows, and
the mean over pairs of sampled rows (a U-statistic) estimates it with a known standard error. It is enough
for it to be below the sampling error, which n rows have in any case, with any number of landmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from nysketch._support.blas import one_thread
from nysketch._types import Floats, Rows
from nysketch.basis.base import Basis
from nysketch.basis.clumps import Clumps, clumps_from_description, clumps_of
from nysketch.basis.fourier import FourierBasis
from nysketch.basis.nystrom import RANK_CUTOFF, NystromBasis
from nysketch.basis.rules import landmarks_by_rule, landmarks_by_theorem
from nysketch.kernels.base import Kernel, inverse_or_zero

QUANTILES = {"median": 0.5, "95%": 0.95, "99%": 0.99, "max": 1.0}

# Fewer rows than this say nothing about pairs of rows.
FEWEST_ROWS = 20

# Beyond so many landmarks, the eigenvectors of the kernel matrix take minutes and more memory than a pass:
# then quality is measured only where it is asked for.
MEASURED_UP_TO = 2000

# Rows to measure on, at most: pairs of 2000 rows take a second.
MEASURED_ROWS = 2000
# Kernels of text are slow: two million pairs of strings of 60 characters took a subsequence kernel 8 s.
MEASURED_STRINGS = 500

# Farther than this, no extrapolation is worth a word.
_MOST_DOUBLINGS = 5

# The rows of h at a time: 512 × 2000 values are 8 MB.
_STEP = 512


@dataclass(frozen=True)
class Quality:
    """What sampled rows say about landmarks; `rows` were measured and represent `of_rows`."""

    rows: int
    of_rows: int
    kernel: str
    landmarks: int
    rank: int
    mean_residual: float
    mean_residual_se: float
    residual_quantiles: dict[str, float]
    mean_norm: float  # of √k(x,x), which residuals are shares of; 1 for most kernels
    mean_kernel: float  # between different rows
    projection_error: float
    projection_error_se: float
    sampling_error: float
    effective_dimension: float | None  # at λ = 1/n; None if it was not asked for
    enough: bool | None  # by a standard error of the squares; None: within it
    landmarks_needed: int | None
    clumps: Clumps | None = None  # of rows, too narrow for the kernel

    @property
    def landmarks_rule(self) -> int:
        """√n log √n: how many uniform landmarks theory asks for, without constants."""
        return landmarks_by_rule(self.of_rows)

    @property
    def landmarks_theorem(self) -> int | None:
        """From how many uniform landmarks on the bound of the theorem holds; None if it says nothing."""
        return landmarks_by_theorem(self.of_rows, self.mean_kernel, self.mean_norm)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, what theory asks for, and the advice."""
        theory = {"landmarks_rule": self.landmarks_rule, "landmarks_theorem": self.landmarks_theorem}
        return asdict(self) | theory | {"advice": self.advice()}

    def advice(self) -> list[str]:
        """Say in plain words whether there are enough landmarks and whether the bandwidth is sensible."""
        found = (
            f"the projection error {self.projection_error:.2g} ± {self.projection_error_se:.1g} is "
            f"{{}} the sampling error {self.sampling_error:.2g} of {self.of_rows:,} rows"
        )
        if self.enough and self.clumps is not None:
            sentences = []  # what the kernel does not see, no number of landmarks is enough for
        elif self.enough:
            sentences = [f"Enough landmarks: {found.format('below')}."]
        elif self.enough is None:
            sentences = [f"Borderline number of landmarks: {found.format('within its standard error of')}."]
        else:
            more = (
                f"About {self.landmarks_needed:,} may be enough (`landmarks={self.landmarks_needed}`)."
                if self.landmarks_needed is not None
                else "The error decreases too slowly with m to extrapolate."
            )
            sentences = [f"Too few landmarks: {found.format('above')}. {more}"]
        fine = [] if self.clumps is None else [self.clumps.note()]
        return [*fine, *sentences, *self._notes_on_kernel()]

    def advice_for(self, rows: int) -> list[str]:
        """Return the advice for so many rows like those: the sampling error of more of them is smaller."""
        sampling = self.sampling_error * math.sqrt(self.of_rows / rows) if rows else math.inf
        known = self.projection_error + self.projection_error_se <= sampling
        if not self.enough or known or self.clumps is not None:
            return self.advice()
        unknown = (
            f"Enough landmarks for {self.of_rows:,} rows, but perhaps not for {rows:,}: their sampling error "
            f"is about {sampling:.2g}, and the projection error {self.projection_error:.2g} ± "
            f"{self.projection_error_se:.1g}. Measure it with `nysketch.info(quality=True)`."
        )
        return [unknown, *self._notes_on_kernel()]

    def _notes_on_kernel(self) -> list[str]:
        sharper, softer = _REMEDIES.get(self.kernel, ("a smaller `bandwidth`", "a larger `bandwidth`"))
        if self.sampling_error <= 1e-7 * self.mean_norm:
            return ["The kernel does not distinguish the rows at all."]
        if self.mean_kernel > 0.95 * self.mean_norm**2:
            remedy = f": try {sharper}" if sharper else ""
            return [f"The kernel hardly distinguishes rows (mean value {self.mean_kernel:.3g}){remedy}."]
        if self.rank < self.landmarks / 2 and self.enough is not False and self.clumps is None:
            span = f"{self.rank} dimension{'s' if self.rank != 1 else ''}"
            return [f"The landmarks span only {span}: fewer would do."]
        if self.mean_residual > 0.9 * self.mean_norm and softer:
            mean = f"mean residual {self.mean_residual:.2f}"
            return [f"Most rows are unlike all landmarks ({mean}): try {softer}."]
        return []


# What makes other kernels than those with a bandwidth tell more rows apart, and fewer.
_REMEDIES = {
    "cosine": ("", ""),
    "linear": ("", ""),
    "polynomial": ("a larger `degree`", ""),
    "spectrum": ("a larger `length`", "a smaller `length`"),
    "subsequence": ("a larger `length`", "a smaller `length`"),
}


@dataclass(frozen=True)
class FourierQuality:
    """How far Fourier features are from their kernel, on pairs of sampled rows."""

    rows: int
    draw: str
    kernel_error: float  # root of the mean squared error of k(x, y)
    clumps: Clumps | None = None  # of rows, too narrow for the kernel

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, and the advice."""
        return asdict(self) | {"advice": self.advice()}

    def advice(self) -> list[str]:
        """Say it in plain words."""
        fine = [] if self.clumps is None else [self.clumps.note()]
        error = f"{self.kernel_error:.2g} (root mean square on {self.rows:,} rows)"
        if self.draw != "gaussian":
            return [
                *fine,
                f"Features with {self.draw} frequencies have a different kernel, {error} from the Gaussian.",
            ]
        return [*fine, f"Kernel values are off by {error}; four times as many features halve that."]


def stored(measured: Quality | FourierQuality) -> dict[str, Any]:
    """Return a measurement as the origin of a basis has it; `held_out` has what it always had."""
    values = asdict(measured)
    clumps = values.pop("clumps")
    return {"held_out": values} | ({} if clumps is None else {"clumps": clumps})


def from_origin(origin: Mapping[str, Any]) -> Quality | FourierQuality:
    """Rebuild the measurement that is `stored` in the origin of a basis; raise ValueError if it is none."""
    measured, clumps = from_description(origin["held_out"]), origin.get("clumps")
    return measured if clumps is None else replace(measured, clumps=clumps_from_description(clumps))


def from_description(description: dict[str, Any]) -> Quality | FourierQuality:
    """Rebuild a measurement from its values; raise ValueError if these are none."""
    kind = FourierQuality if "kernel_error" in description else Quality
    if set(description) != {field.name for field in fields(kind)} - {"clumps"}:
        raise ValueError("its quality has unexpected values")
    for name, value in description.items():
        if name == "residual_quantiles":
            good = set(value) == set(QUANTILES) and all(_is_measured(item) for item in value.values())
        elif name in ("kernel", "draw"):
            good = isinstance(value, str)
        elif name == "enough":
            good = value is None or isinstance(value, bool)
        elif name in ("effective_dimension", "landmarks_needed") and value is None:
            good = True
        else:
            whole = name in ("rows", "of_rows", "landmarks", "rank", "landmarks_needed")
            good = _is_measured(value) and (not whole or (isinstance(value, int) and value >= 0))
        if not good:
            raise ValueError(f"its quality has an impossible {name}")
    return kind(**description)


def _is_measured(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e100


def measure(
    basis: Basis,
    scaled: Rows,
    weights: Floats | None,
    *,
    of_rows: int,
    effective_dimension: bool = True,
    at_most: int = MEASURED_ROWS,
) -> Quality | FourierQuality | None:
    """Measure a basis on scaled rows that represent `of_rows`; None if these are too few to say.

    Rows must be in no order that has to do with their content: if there are many, the first will do.
    """
    if weights is not None:
        # Rows without weight do not count, here or in the table.
        of_rows = round(of_rows * float((weights > 0).mean())) if len(weights) else 0
        scaled, weights = scaled[weights > 0], weights[weights > 0]
    if len(scaled) < FEWEST_ROWS:
        return None
    most = MEASURED_STRINGS if basis.text else at_most
    scaled, weights = scaled[:most], None if weights is None else weights[:most]
    relative = relative_weights(weights, len(scaled))
    # With one thread: on a busy machine, threads that wait for each other made a second of this twenty.
    with one_thread():
        clumps = clumps_of(basis.kernel, scaled)
        if isinstance(basis, FourierBasis):
            clumps = None if clumps is None else replace(clumps, auto=False)
            return replace(_measure_fourier(basis, scaled), clumps=clumps)
        assert isinstance(basis, NystromBasis)
        measured = _measure_landmarks(basis, scaled, relative, max(of_rows, len(scaled)), effective_dimension)
        return replace(measured, clumps=clumps)


def _measure_landmarks(
    basis: NystromBasis, X: Rows, weights: Floats, of_rows: int, with_dimension: bool
) -> Quality:
    n, s = of_rows, len(X)
    features = features_of(basis, X)
    squared_norms = basis.kernel.diagonal(X)
    residuals = residuals_of(squared_norms, features)
    pairs = PairMeans(basis, X, features, weights)
    # Of all n² pairs, so many are a row with itself.
    own = float((weights**2).mean()) / n
    squared_error = (1 - own) * pairs.mean_h + float((weights**2 * residuals**2).mean()) / n
    # The larger the part of the table that was sampled, the less is left to chance.
    variance = pairs.variance_h * (1 - s / n)
    # |φ(x) − μ|² for each row, and its mean over draws of n rows.
    spreads = squared_norms - 2 * pairs.means_k + pairs.mean_k
    squared_sampling = max(0.0, float((weights**2 * spreads).mean())) / n
    enough = _enough(squared_error, math.sqrt(variance), squared_sampling)
    error, error_se = _root(squared_error, math.sqrt(variance))
    mean, mean_se = weighted_mean(residuals, weights, share_left=1 - s / n)
    needed = None
    if enough is False:
        needed = _landmarks_needed(basis, X, weights, pairs, n, squared_error, squared_sampling)
    return Quality(
        rows=s,
        of_rows=n,
        kernel=basis.kernel.name,
        landmarks=basis.m,
        rank=basis.rank,
        mean_residual=mean,
        mean_residual_se=mean_se,
        residual_quantiles=_quantiles(residuals, weights),
        mean_norm=float((weights * np.sqrt(squared_norms)).mean()),
        mean_kernel=pairs.mean_k,
        projection_error=error,
        projection_error_se=error_se,
        sampling_error=math.sqrt(squared_sampling),
        effective_dimension=effective_dimension_of(basis.kernel, X, weights, n) if with_dimension else None,
        enough=enough,
        landmarks_needed=needed,
    )


def relative_weights(weights: Floats | None, rows: int) -> Floats:
    """Return weights with a mean of 1: ones, where rows have none."""
    return np.ones(rows) if weights is None else weights / weights.mean()


def features_of(basis: Basis, X: Rows) -> Floats:
    """Return the features of rows, without the values of all of them at all landmarks at once."""
    features = np.empty((len(X), basis.rank))
    for start in range(0, len(X), _STEP):
        part = slice(start, start + _STEP)
        features[part] = basis.to_features(basis.evaluate(X[part]))
    return features


class PairMeans:
    """Means over pairs of different rows of k and of h = k − k_Z, and the variance of the latter."""

    def __init__(self, basis: NystromBasis, X: Rows, features: Floats, weights: Floats) -> None:
        s = len(X)
        sums_k, sums_h = np.empty(s), np.empty(s)
        for start in range(0, s, _STEP):
            part = slice(start, start + _STEP)
            k = basis.kernel(X[part], X)
            h = k - features[part] @ features.T
            rows = np.arange(len(k))
            k[rows, start + rows] = h[rows, start + rows] = 0.0
            sums_k[part], sums_h[part] = k @ weights, h @ weights
        others = weights.sum() - weights
        pairs = float(weights @ others)
        self.means_k = sums_k / others  # of each row with all others
        self.mean_k = float(weights @ sums_k) / pairs
        self.means_h = sums_h / others
        self.mean_h = float(weights @ sums_h) / pairs
        # Of a U-statistic: the variance of the means over partners of each row, four times over s. These vary
        # on their own account, too, which makes it somewhat too large where there is nothing else: better so.
        influence = 2 * weights * (self.means_h - self.mean_h)
        self.variance_h = float((influence**2).mean()) / s


def _root(square: float, se: float) -> tuple[float, float]:
    """Return the root of an estimated square, which may be negative, and the standard error of the root."""
    root = math.sqrt(max(square, 0.0))
    return root, math.sqrt(max(square, 0.0) + se) - root


def _enough(squared_error: float, se: float, squared_sampling: float) -> bool | None:
    if squared_error + se <= squared_sampling:
        return True
    return False if squared_error - se > squared_sampling else None


def weighted_mean(values: Floats, weights: Floats, *, share_left: float) -> tuple[float, float]:
    """Return the mean over sampled rows and its standard error; so much of the table was not sampled."""
    mean = float((weights * values).mean())
    variance = float((weights**2 * (values - mean) ** 2).mean()) / len(values)
    return mean, math.sqrt(variance * share_left)


def _quantiles(values: Floats, weights: Floats) -> dict[str, float]:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    # The smallest value that at least this share of the rows does not exceed.
    at = np.minimum(np.searchsorted(cumulative, list(QUANTILES.values()), side="left"), len(values) - 1)
    return dict(zip(QUANTILES, values[order][at].tolist(), strict=True))


def effective_dimension_of(kernel: Kernel, X: Rows, weights: Floats, n: int) -> float:
    """N(λ) = tr C(C + λ)⁻¹ at λ = k(x,x)/n; the sample has no more dimensions than rows."""
    from scipy.linalg import eigh

    roots = np.sqrt(weights)
    K = kernel(X, X) * roots[:, None] * roots
    eigenvalues = np.maximum(eigh(K, eigvals_only=True, overwrite_a=True, driver="evd"), 0.0) / len(X)
    total = float(eigenvalues.sum())
    return float((eigenvalues / (eigenvalues + total / n)).sum()) if total > 0 else 0.0


def _landmarks_needed(
    basis: NystromBasis,
    X: Rows,
    weights: Floats,
    pairs: PairMeans,
    n: int,
    squared_error: float,
    target: float,
) -> int | None:
    """Extrapolate from the errors with a quarter of the landmarks, with half of them and with all.

    Landmarks are in the order in which they were drawn, so the first are what a smaller sample would have
    been. A straight line in logarithms, at the slower of the two rates: kernels that are smooth do better.
    """
    from scipy.linalg import cholesky, solve_triangular

    half = basis.m // 2
    if basis.m < 16 or not target > 0:
        return None
    first = basis.scaled_landmarks[:half]
    lengths = np.sqrt(basis.kernel.diagonal(first))
    if not lengths.any():
        return None  # these landmarks are 0 to the kernel, such as strings too short for it
    inverse = inverse_or_zero(lengths)[:, None]
    gram = basis.kernel(first, first) * inverse * inverse.T
    gram[np.diag_indices(half)] += RANK_CUTOFF
    coordinates = solve_triangular(
        cholesky(gram, lower=True), basis.kernel(first, X) * inverse, lower=True, overwrite_b=True
    )

    def with_first(count: int) -> float:
        part = coordinates[:count]
        total, own = part @ weights, part**2 @ weights**2
        mean_h = pairs.mean_k - float((total**2 - own).sum()) / (weights.sum() ** 2 - (weights**2).sum())
        residuals = np.maximum(basis.kernel.diagonal(X) - (part**2).sum(axis=0), 0.0)
        return float(mean_h + (weights**2 * residuals).mean() / n)

    errors = [with_first(half // 2), with_first(half), squared_error]
    if not errors[0] > errors[1] > errors[2] > 0:
        return None
    rate = min(math.log2(errors[0] / errors[1]), math.log2(errors[1] / errors[2]))
    doublings = math.log2(squared_error / target) / rate
    return None if doublings > _MOST_DOUBLINGS else _round_up(basis.m * 2**doublings)


def _round_up(count: float) -> int:
    """Round up to two digits: more would pretend to know."""
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return int(math.ceil(count / unit) * unit)


def _measure_fourier(basis: FourierBasis, X: Rows) -> FourierQuality:
    features = features_of(basis, X)
    squares = 0.0
    for start in range(0, len(X), _STEP):
        part = slice(start, start + _STEP)
        error = basis.kernel(X[part], X) - features[part] @ features.T
        squares += float((error**2).sum())  # on the diagonal it is 0
    return FourierQuality(
        rows=len(X), draw=basis.draw, kernel_error=math.sqrt(squares / (len(X) * (len(X) - 1)))
    )


def residuals_of(squared_norms: Floats, features: Floats) -> Floats:
    """Return √(k(x,x) − k_Z(x,x)), from k(x,x) and the features of rows."""
    return np.asarray(np.sqrt(np.maximum(squared_norms - (features**2).sum(axis=1), 0.0)))
