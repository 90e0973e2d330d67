"""Parts of a source, for passes that many processes share: `--part 3/16`.

Every process opens the whole source, so that rows, fragments and the pilot are those of the whole, and
reads the fragments of its part. What the parts of a sketch are counted by is provenance.py's business, and
adding them up is that of files/merge.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nysketch.errors import UsageError
from nysketch.provenance import MOST_PARTS, Provenance, Whole
from nysketch.sources.protocol import Fragment, Source


@dataclass(frozen=True)
class Shard:
    """Part `index` of `of`, counted from 1."""

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of <= MOST_PARTS:
            raise UsageError(
                f"there is no part {self}: parts go from 1/N to N/N, with N up to {MOST_PARTS:,}"
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/16`."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip(), re.ASCII)
        if found is None:
            raise UsageError(f"{text!r} is not a part; write 3/16 for the third of sixteen")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def has(self, fragment: Fragment, rows: int) -> bool:
        """Tell whether a fragment of a source of so many rows is in this part.

        It is in the part that its middle is in, where all rows are cut into equal parts. So parts are
        consecutive fragments, and none has more or fewer rows than an equal share by more than the largest
        fragment has.
        """
        middle = 2 * fragment.first_row + fragment.rows
        # Of fragments without rows, the middle may be the end.
        return min(middle * self.of // (2 * rows), self.of - 1) == self.index - 1


def as_shard(part: Shard | str | None) -> Shard | None:
    """Return the part that a user meant."""
    return Shard.parse(part) if isinstance(part, str) else part


def fragments_of(source: Source, part: Shard | None) -> Iterable[Fragment]:
    """Return the fragments of one part of a source, or all of them."""
    if part is None:
        return source.fragments()
    rows = _known_rows(source, part)
    return (fragment for fragment in source.fragments() if part.has(fragment, rows))


def rows_of(source: Source, part: Shard | None) -> int | None:
    """Return the rows of one part of a source, or of all of it (of a stream: None)."""
    return source.rows if part is None else sum(fragment.rows for fragment in fragments_of(source, part))


def provenance_of(source: Source, part: Shard | None) -> Provenance:
    """Return what a sketch of one part of a source, or of all of it, remembers."""
    if part is None:
        return Provenance.of(source.inputs())
    fragments = ((f.rows, f.row_in_input, f.input_key) for f in source.fragments())
    return Provenance.of_part(Whole.cut(source.inputs(), fragments, part.of), part.index)


def why_no_rows(dropped: int) -> str:
    """Say why a part has no rows, of which so many were dropped."""
    if dropped:
        return f"all {dropped:,} were dropped for nulls, NaN or infinities"
    return "there are fewer fragments (such as row groups) than parts, or some are much larger than others"


def _known_rows(source: Source, part: Shard) -> int:
    """Return the rows of a source that can be cut."""
    if source.rows is None:
        raise UsageError(
            f"part {part}: a stream has no known end, so it cannot be cut into parts. Sketch the rows of "
            "each process with the same `basis`, and merge"
        )
    return max(1, source.rows)
