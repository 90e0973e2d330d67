"""How often each of N numbered parts is held: as stretches of parts that are held equally often.

A merge of thousands of parts, or a whole without one of them, is a few stretches. Parts that are held 0
times are in none of them, and neighbours that are held equally often are in the same one: there is one way
to write it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

# First part, last part, how often each is held.
Stretches = tuple[tuple[int, int, int], ...]


def settled(terms: Iterable[tuple[Stretches, int]], of: int) -> tuple[int, Stretches]:
    """Add stretches, each with a factor; return the least count of parts 1 to `of`, and all beyond it."""
    steps: Counter[int] = Counter({1: 0})
    for stretches, factor in terms:
        for first, last, times in stretches:
            steps[first] += factor * times
            steps[last + 1] -= factor * times
    level, levels = 0, []
    starts = sorted(start for start in steps if start <= of)
    for start, end in zip(starts, [*starts[1:], of + 1], strict=True):
        level += steps[start]
        levels.append((start, end - 1, level))
    least = min(level for _, _, level in levels)
    return least, _joined((first, last, level - least) for first, last, level in levels)


def _joined(levels: Iterable[tuple[int, int, int]]) -> Stretches:
    """Unite neighbours with the same count, and leave out what is held 0 times."""
    joined: list[tuple[int, int, int]] = []
    for first, last, times in levels:
        if joined and times == joined[-1][2] and first == joined[-1][1] + 1:
            first = joined.pop()[0]
        if times:
            joined.append((first, last, times))
    return tuple(joined)


def at_least(stretches: Stretches, times: int) -> Stretches:
    """Return the parts that are held so often, once each."""
    return _joined((first, last, 1) for first, last, held in stretches if held >= times)


def common(one: Stretches, other: Stretches) -> Stretches:
    """Return the parts that are in both, once each."""
    found: list[tuple[int, int, int]] = []
    for first, last, _ in one:
        for start, end, _ in other:
            if max(first, start) <= min(last, end):
                found.append((max(first, start), min(last, end), 1))
    return _joined(sorted(found))


def others(stretches: Stretches, of: int) -> Stretches:
    """Return the parts of 1 to `of` that are in no stretch."""
    ends = [0, *(last for _, last, _ in stretches)]
    starts = [*(first for first, _, _ in stretches), of + 1]
    gaps = zip(ends, starts, strict=True)
    return tuple((end + 1, start - 1, 1) for end, start in gaps if end + 1 < start)


def stretched(parts: Iterable[int]) -> Stretches:
    """Return parts, given one by one, as stretches."""
    return _joined((part, part, 1) for part in sorted(set(parts)))


def numbers(stretches: Stretches) -> Iterator[int]:
    """Yield the parts that are held, each once."""
    for first, last, _ in stretches:
        yield from range(first, last + 1)


def in_words(stretches: Stretches, of: int) -> str:
    """Return the parts for people: `part 3 of 16`, `parts 3, 7–9 of 16`."""
    texts = [f"{first}" if first == last else f"{first}–{last}" for first, last, _ in stretches[:_SHOWN]]
    more = ", …" if len(stretches) > _SHOWN else ""
    return f"part{'' if is_one(stretches) else 's'} {', '.join(texts)}{more} of {of}"


def is_one(stretches: Stretches) -> bool:
    """Tell whether there is but one part."""
    return len(stretches) == 1 and stretches[0][0] == stretches[0][1]


# As many as anybody reads; `--json` has them all.
_SHOWN = 40
