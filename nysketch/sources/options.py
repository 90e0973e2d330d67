"""How rows are read: which columns, of which files, and how often reading is tried again.

`open_source` (open.py) takes these options; what they select of a table is selection.py's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.errors import UsageError
from nysketch.kinds import Category, KindRequest, Text, Time, parse_kinds
from nysketch.kinds.requests import CATEGORY, TEXT, TIME
from nysketch.sources.selection import Selection


class ReadKeywords(TypedDict, total=False):
    """The fields of ReadOptions as keyword arguments."""

    columns: Sequence[str] | None
    exclude: Sequence[str]
    weights: str | None
    like: Sequence[Column] | None
    text: bool
    keep: Sequence[str]
    every_number: bool
    kinds: Mapping[str, KindRequest]
    automatic: bool
    datasets: Sequence[str]
    allow_external: bool
    skip_unreadable: bool
    retries: int | None
    timeout: float | None
    memory: int | None


@dataclass(frozen=True)
class ReadOptions:
    """How to read rows, whatever they are read for.

    `columns` are those to read, in this order, and `exclude` those to leave out; by default all numeric ones
    are read. `kinds` are those of columns that are no plain numbers; if they are `automatic`, so are those of
    text and times. `weights` names the column of row
    weights. `like` are the columns of a basis: then exactly these are read. With `text`, or if the basis has
    text, one column of text is read instead of numbers: the one named, or the only one there is. Columns to
    `keep` can be read beside them, as they are. A basis that is made leaves out serial numbers and constants
    that nobody named, unless `every_number` is wanted.

    The others are for files: `datasets` of HDF5, whose links are followed if `allow_external` trusts them;
    `skip_unreadable` files; and how often reading from far away is tried again, and how many seconds an
    answer may take: 4 and 30 unless `retries` and `timeout` say otherwise. `memory` is what the process may
    take in all, if there is a limit: files are refused that cannot even be opened within it.
    """

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    weights: str | None = None
    like: Sequence[Column] | None = None
    text: bool = False
    keep: Sequence[str] = ()
    every_number: bool = False
    kinds: Mapping[str, KindRequest] = field(default_factory=dict)
    automatic: bool = False
    datasets: Sequence[str] = ()
    allow_external: bool = False
    skip_unreadable: bool = False
    retries: int | None = None
    timeout: float | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", _listed(self.columns))
        for name in ("exclude", "keep", "datasets"):
            object.__setattr__(self, name, _listed(getattr(self, name)))

    def weighted_as(self, weights: str | None) -> ReadOptions:
        """Return options to read the same weights as before, unless others are named."""
        return replace(self, weights=self.weights or weights)

    def for_columns(self, columns: Sequence[Column]) -> ReadOptions:
        """Return options to read the columns of a basis or a model."""
        return replace(self, like=columns)

    def for_basis(self, basis: Basis | BasisOptions) -> ReadOptions:
        """Return options to read what a basis needs, or what it takes to make one."""
        if isinstance(basis, Basis):
            return self.for_columns(basis.columns)
        columns = basis.columns_to_read(self.columns)
        kinds, text = parse_kinds(basis.kinds), basis.text
        return replace(self, columns=columns, text=text, kinds=kinds, automatic=not text)

    def keeping_originals(self, *others: str) -> ReadOptions:
        """Return options to keep columns of categories and times as well, whose numbers do not tell all."""
        encoded = (CATEGORY, TEXT, TIME)
        names = [name for name, request in self.kinds.items() if request.kind in encoded]
        names += [c.name for c in self.like or () if isinstance(c.kind, Category | Text | Time)]
        more = [name for name in dict.fromkeys([*names, *others]) if name not in self.keep]
        return replace(self, keep=(*self.keep, *more))

    def selection(self) -> Selection:
        """Return which columns to select; raise UsageError where options contradict each other."""
        columns, text = self.columns, self.text
        kinds = {name: request.unfitted() for name, request in self.kinds.items()}
        if len(set(self.keep)) < len(self.keep):
            raise UsageError(f"a column is named twice in `keep`: {', '.join(self.keep)}")
        if self.like is not None:
            if columns is not None or self.exclude:
                raise UsageError("the basis determines the columns: leave out `columns` and `exclude`")
            columns = [column.name for column in self.like]
            if self.weights in columns:
                raise UsageError(f"column {self.weights!r} belongs to the basis, so it cannot be `weights`")
            if text and not any(column.text for column in self.like):
                raise UsageError("the basis is numeric: it cannot be used with text")
            text = any(column.text for column in self.like)
            kinds = {column.name: column.kind for column in self.like if column.kind is not None}
        if text and kinds:
            raise UsageError("string kernels read one text column, which has no kind: leave out `kinds`")
        if columns is not None and (others := [name for name in kinds if name not in columns]):
            raise UsageError(f"`kinds` names column {others[0]!r}, which is not among `columns`")
        if excluded := [name for name in kinds if name in self.exclude]:
            raise UsageError(f"`kinds` names column {excluded[0]!r}, which `exclude` leaves out")
        if self.weights in kinds:
            raise UsageError(f"`kinds` names column {self.weights!r}, which has the row weights")
        if text and columns is not None and len(columns) != 1:
            raise UsageError(
                f"string kernels read one text column, not {len(columns)}: choose one with `columns`"
            )
        chosen = None if columns is None else tuple(columns)
        automatic = self.automatic and self.like is None and not text
        keep, exclude = tuple(self.keep), tuple(self.exclude)
        return Selection(chosen, exclude, self.weights, text, keep, self.every_number, kinds, automatic)


def _listed(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return names, of which one may be given alone."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)
