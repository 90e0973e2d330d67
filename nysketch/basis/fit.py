"""From pilot rows to a basis: scaling, kernel, landmarks or frequencies, and how good they are.

Where the pilot rows come from is passes/pilot.py's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.blas import one_thread
from nysketch._support.notices import log
from nysketch._support.seeds import require_seed
from nysketch._types import Floats, Progress, Rows
from nysketch.basis import landmarks, quality
from nysketch.basis.base import Basis
from nysketch.basis.emphasis import emphasised
from nysketch.basis.encoding import facts_of_columns, fit_encoding
from nysketch.basis.fourier import FourierBasis, draw_frequencies
from nysketch.basis.layout import Layout
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.options import AUTO, BasisOptions
from nysketch.basis.rare_codes import rare_landmarks, with_rare_codes
from nysketch.basis.rules import landmarks_by_rule
from nysketch.basis.scaling import Wild, notes_on_tiny, notes_on_wild
from nysketch.columns import Column, owners
from nysketch.errors import InputError, option
from nysketch.kernels import Gaussian, Kernel

_FIRST_TRY = 125  # landmarks, where their number is to be found

# Largest scaled value of a landmark: divided by the smallest bandwidth it can still be squared. And the
# largest k(x, x): products of two can still be added up.
LARGEST = 1e100

# And the smallest, unless all are 0: below, products are no numbers.
SMALLEST = 1e-200

# Rows of the pilot that take no part in the choice of landmarks, so that they can judge it. To find the
# number of landmarks takes more: at 4000 rows the noise of the estimate is 1/4000 of a kernel value.
_HELD_OUT = 2000
_HELD_OUT_FOR_AUTO = 4000
_SHARE_HELD_OUT = 5
# The eigenvalues of so many take a tenth of a second; of twice as many, most of one.
_ROWS_FOR_DIMENSION = 1000

# Streams of random numbers; landmarks.py uses those before.
_FREQUENCIES, _SPLIT = 7, 8


def fit_rows(
    rows: Rows,
    columns: Sequence[Column],
    options: BasisOptions,
    *,
    seed: int = 0,
    of_rows: int | None = None,
    progress: Progress | None = None,
) -> Basis:
    """Make a basis from pilot rows (all finite, in the data's units) of a table of `of_rows` rows."""
    rows = np.asarray(rows, object if columns[0].text else np.float64)
    if not len(rows):
        raise InputError("there are no rows to choose landmarks from")
    encoded = any(column.kind is not None for column in columns)  # missing values are NaN, and may be
    if not columns[0].text and not (np.isfinite(rows) | (encoded & np.isnan(rows))).all():
        raise InputError("the rows to choose landmarks from contain NaN or infinities; remove them")
    require_seed(seed)
    # With one thread: the last bits of sums may depend on their number, and the choice of landmarks on them.
    with one_thread():
        return _Fit(rows, tuple(columns), options, seed, of_rows or len(rows), progress).basis()


def basis_from_rows(rows: Rows, columns: Sequence[Column], *, seed: int = 0, **options: Any) -> Basis:
    """Make a basis from pilot rows that are in memory; options are those of BasisOptions."""
    return fit_rows(rows, columns, BasisOptions.of(options), seed=seed)


class _Fit:
    """One basis in the making."""

    def __init__(
        self,
        rows: Rows,
        columns: tuple[Column, ...],
        options: BasisOptions,
        seed: int,
        of_rows: int,
        progress: Progress | None,
    ) -> None:
        self._rows, self._columns, self._options = rows, columns, options
        self._seed, self._of_rows, self._progress = seed, of_rows, progress
        text = columns[0].text
        self._scaling = "none" if text else options.stored_scaling
        self._center, self._scale = np.zeros(1), np.ones(1)
        self._wild: tuple[Wild, ...] = ()
        self._scaled = rows
        if not text:
            with np.errstate(over="ignore", invalid="ignore"):
                found = fit_encoding(rows, columns, options.scaling, self._to_trim())
            self._columns = columns = found.columns
            self._center, self._scale, self._wild = found.center, found.scale, found.wild
            _require_finite(self._center, self._scale, columns)
            features = rows
            if any(column.kind is not None for column in columns):
                features = Layout.of(columns).expand(rows)
            for note in [*notes_on_wild(found.wild, len(rows)), *notes_on_tiny(features, columns)]:
                log.warning("%s", note)
            if options.emphasis:
                self._scale = emphasised(self._scale, columns, options.emphasis)
            self._scaled = (features - self._center) / self._scale
            if np.abs(self._scaled).max() > LARGEST:
                raise InputError(
                    f"a column has values beyond {LARGEST:g}, too large for distances. Leave it out with "
                    "`exclude`"
                )
        self._kernel: Kernel = options.kernel_options().fit(self._scaled, self._widths(), seed)
        with np.errstate(over="ignore", invalid="ignore"):
            squared_norms = self._kernel.diagonal(self._scaled)
        if not (squared_norms < LARGEST).all():
            raise InputError(
                f"some rows are too large for the kernel ({self._kernel}). Leave the column out with "
                '`exclude`, or use a bounded kernel such as `kernel="gaussian"`'
            )
        if not text and 0 < squared_norms.max() < SMALLEST:
            raise InputError(
                f"all rows are too small for the kernel ({self._kernel}): values such as {rows.max():.3g}. "
                'Multiply them, or scale them with `scale="standard"`'
            )
        if text and not squared_norms.any():
            raise InputError(
                f"no string has the {options.length} characters that the kernel compares: use a smaller "
                "`length`"
            )
        self._candidates, self._held_out = self._split()

    def _widths(self) -> dict[str, int]:
        return {column.name: column.features for column in self._columns}

    def _to_trim(self) -> NDArray[np.bool_]:
        """Tell of which features wild values are left out: those of kernels that do not grow with them.

        To a linear kernel, a wild value is as large as it is far. With a deviation of which it is a part, it
        is at most √n; without, it would hide all other columns.
        """
        return self._options.kernel_options().bounded(self._widths())

    def _split(self) -> tuple[Any, Any]:
        """Return the numbers of the rows to choose from, and of those to judge by."""
        count = len(self._rows)
        if self._options.m == AUTO:
            held_out = min(_HELD_OUT_FOR_AUTO, count // _SHARE_HELD_OUT)
        else:
            held_out = min(_HELD_OUT, count // _SHARE_HELD_OUT, count - self._options.most)
        if held_out < quality.FEWEST_ROWS:
            return np.arange(count), np.arange(0)
        order = np.random.default_rng([self._seed, _SPLIT]).permutation(count)
        return np.sort(order[held_out:]), order[:held_out]

    def basis(self) -> Basis:
        if self._options.features == "fourier":
            fourier = self._fourier()
            origin = {"frequencies": self._options.frequencies}
            return self._with_origin(fourier, self._measure(fourier), origin)
        if self._options.m == AUTO:
            return self._grow()
        basis, report = self._choose(self._options.most)
        return self._with_origin(basis, self._measure(basis), self._origin_of_landmarks(report))

    def _origin_of_landmarks(self, report: dict[str, Any]) -> dict[str, Any]:
        return {"sampling": self._options.sampling, "sampling_report": _to_six_digits(report)}

    def _with_origin(
        self,
        basis: Basis,
        measured: quality.Quality | quality.FourierQuality | None,
        origin: dict[str, Any],
    ) -> Basis:
        origin |= {"bandwidth": self._options.bandwidth, "pilot_rows": len(self._rows), "seed": self._seed}
        if self._options.emphasis:
            origin["emphasis"] = dict(self._options.emphasis)
        if self._wild:
            origin["wild"] = [_to_six_digits(asdict(one)) for one in self._wild]
        if basis.encoded:
            facts = facts_of_columns(self._rows, self._scaled, self._columns)
            origin["pilot_columns"] = _to_six_digits(facts)
        if measured is not None:
            origin |= _to_six_digits(quality.stored(measured))
        return replace(basis, origin=origin)

    def _measure(self, basis: Basis) -> quality.Quality | quality.FourierQuality | None:
        if basis.m > quality.MEASURED_UP_TO and self._options.m != AUTO:
            return None
        measured = quality.measure(
            basis,
            self._scaled[self._held_out],
            None,
            of_rows=self._of_rows,
            effective_dimension=False,
            at_most=_HELD_OUT_FOR_AUTO,
        )
        if isinstance(measured, quality.Quality):
            return replace(measured, effective_dimension=self._effective_dimension)
        return measured

    def _common(self) -> dict[str, Any]:
        return {
            "columns": self._columns,
            "scaling": self._scaling,
            "center": self._center,
            "scale": self._scale,
            "kernel": self._kernel,
        }

    def _fourier(self) -> FourierBasis:
        assert isinstance(self._kernel, Gaussian)
        rng = np.random.default_rng([self._seed, _FREQUENCIES])
        count, d = self._options.most // 2, self._scaled.shape[1]
        drawn = draw_frequencies(count, d, self._options.frequencies, rng)
        return FourierBasis(
            **self._common(), frequencies=drawn / self._kernel.bandwidth, draw=self._options.frequencies
        )

    def _choose(self, m: int) -> tuple[NystromBasis, dict[str, Any]]:
        """Return a basis of m landmarks, or of fewer if there are no more different ones."""
        candidates = self._scaled[self._candidates]
        layout = Layout.of(self._columns)
        rare = rare_landmarks(m, layout)
        choice = landmarks.choose(
            self._options.sampling,
            candidates,
            self._kernel,
            m - rare,
            seed=self._seed,
            progress=self._progress,
        )
        if choice.indices is None and any(column.kind is not None for column in self._columns):
            chosen = self._rows[self._candidates[_nearest_rows(choice.rows, candidates)]]
        elif choice.indices is None:
            chosen = choice.rows * self._scale + self._center
        else:
            chosen = self._rows[self._candidates[choice.indices]]
        chosen = with_rare_codes(chosen, self._rows[self._candidates], rare, layout, seed=self._seed)
        return NystromBasis(**self._common(), landmarks=np.ascontiguousarray(chosen)), choice.report

    def _grow(self) -> Basis:
        """Double the number of landmarks until it is enough, or the most that is allowed."""
        most, tries = self._options.most, []
        if not len(self._held_out):
            log.warning("%d rows are too few to choose the number of landmarks", len(self._rows))
        m = min(_FIRST_TRY, most) if len(self._held_out) else most
        dimension, rule = self._effective_dimension, landmarks_by_rule(self._of_rows)
        if dimension is not None:
            log.info(
                "effective dimension at least %.0f at λ = 1/n; √n log √n = %d landmarks", dimension, rule
            )
        while True:
            basis, report = self._choose(m)
            measured = self._measure(basis)
            if isinstance(measured, quality.Quality):
                _log_try(measured)
                tries.append({name: _to_six_digits(getattr(measured, name)) for name in _OF_A_TRY})
            if m == most or basis.m < m or (isinstance(measured, quality.Quality) and measured.enough):
                break
            m = min(2 * m, most)
        if isinstance(measured, quality.Quality) and not measured.enough and m == most:
            log.warning(
                "stopped at %d landmarks, the maximum; raise it with `max_landmarks` (√n log √n = %d)",
                m,
                rule,
            )
        origin = self._origin_of_landmarks(report) | ({"auto": tries} if tries else {})
        return self._with_origin(basis, measured, origin)

    @cached_property
    def _effective_dimension(self) -> float | None:
        """That of the rows held out, whatever the landmarks; None if there are none."""
        most = quality.MEASURED_STRINGS if self._columns[0].text else _ROWS_FOR_DIMENSION
        rows = self._scaled[self._held_out[:most]]
        if not len(rows):
            return None
        n = max(self._of_rows, len(rows))
        return quality.effective_dimension_of(self._kernel, rows, np.ones(len(rows)), n)


# What is remembered of the numbers of landmarks that were tried.
_OF_A_TRY = ("landmarks", "projection_error", "projection_error_se", "sampling_error")


def _log_try(measured: quality.Quality) -> None:
    values = [getattr(measured, name) for name in _OF_A_TRY]
    log.info("%d landmarks: projection error %.2g ± %.1g, sampling error %.2g", *values)


def _to_six_digits(value: Any) -> Any:
    """Round numbers to six digits: all that they can mean, and no more than every machine agrees on."""
    if isinstance(value, dict):
        return {key: _to_six_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _nearest_rows(places: Floats, rows: Floats) -> NDArray[np.int64]:
    """Return the numbers of the rows nearest to some places, each once: a mean of categories is none."""
    halves = 0.5 * (rows**2).sum(axis=1)
    nearest = [int(np.argmin(halves - rows @ place)) for place in places]
    return np.array(list(dict.fromkeys(nearest)), np.int64)


def _require_finite(center: Floats, scale: Floats, columns: Sequence[Column]) -> None:
    for name, c, s in zip(owners(columns), center, scale, strict=True):
        if not (np.isfinite(c) and np.isfinite(s)):
            raise InputError(
                f"column {name!r} has values too large to scale by. Leave it out with "
                f'{option("exclude", name)}, or use `scale="none"`'
            )
