"""`nysketch.compare` and `compare_all`: tests between sketches. `independence`: between columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from nysketch.api._data import AnyPath, as_sketch
from nysketch.errors import UsageError
from nysketch.hsic.independence import independence as test_independence
from nysketch.hsic.results import Independence
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.compare import Comparison, Comparisons
from nysketch.twosample.compare import compare as compare_two
from nysketch.twosample.compare import compare_all as compare_pairs


def compare(
    first: Sketch | AnyPath,
    second: Sketch | AnyPath,
    *,
    names: tuple[str, str] | None = None,
    test: str = "auto",
    permutations: int | None = None,
    alpha: float = 0.05,
    blocks: str = "auto",
    robust: int | str | None = None,
    robust_method: str = "trim",
    seed: int = 0,
    explain: bool = True,
    regions: int = 3,
) -> Comparison:
    """Compare two sketches: their MMD with its standard error, a test, and which columns shifted.

    Parameters
    ----------
    first, second : Sketch or path
        What to compare, best at one basis.
    names : pair of str, optional
        What to call them. Default: their paths, or "first" and "second".
    test : {"auto", "permutation", "bootstrap", "none"}
        How the p-value is found.
    permutations : int, optional
        Draws of the test. Default: 1000, and more if `alpha` needs them.
    alpha : float
        Level of the test.
    blocks : {"auto", "random", "consecutive"}
        What the test permutes: random blocks of rows, or spans of consecutive rows, for rows that depend on
        their neighbours.
    robust : {"auto"} or int, optional
        Exclude outlying blocks. Tolerates corrupted rows in fewer than half as many blocks as the sketch with
        fewer blocks has, in both together; with a number, in fewer than half of that. It is also the number
        of groups of the median of means; "auto" takes as few as the outlying blocks allow.
    robust_method : {"trim", "geometric-median", "bcd", "bcd-fast"}
        The MMD of the blocks that are left; or a median of means over groups of all blocks, by geometric
        medians or by Algorithm 1 or 2 of the paper on MONK, with a test that permutes it.
    seed : int
        Seed of the test.
    explain : bool
        Work out which columns and regions shifted.
    regions : int
        Regions to show on each side.

    Returns
    -------
    Comparison
        With `mmd`, `standard_error`, `p_value`, `rejected`, `explanation` and `notes`.

    Examples
    --------
    >>> found = nysketch.compare("monday.nysk", "tuesday.nysk")
    >>> found.mmd, found.p_value

    """
    called = names or tuple(
        os.fspath(given) if isinstance(given, str | os.PathLike) else name
        for given, name in ((first, "first"), (second, "second"))
    )
    return compare_two(
        as_sketch(first, "the comparison"),
        as_sketch(second, "the comparison"),
        names=(called[0], called[1]),
        test=test,
        permutations=permutations,
        alpha=alpha,
        blocks=blocks,
        robust=robust,
        robust_method=robust_method,
        seed=seed,
        explain=explain,
        regions=regions,
    )


def compare_all(
    sketches: Mapping[str, Sketch | AnyPath] | Sequence[Sketch | AnyPath],
    *,
    reference: str | int | None = None,
    chain: bool = False,
    test: str = "auto",
    permutations: int | None = None,
    alpha: float = 0.05,
    adjust: str = "holm",
    blocks: str = "auto",
    robust: int | str | None = None,
    robust_method: str = "trim",
    seed: int = 0,
    explain: bool = False,
    regions: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Comparisons:
    """Compare several sketches in pairs, with p-values adjusted for their number.

    Parameters
    ----------
    sketches : dict of str to Sketch, or list of Sketch or paths
        What to compare. The keys, paths or positions are their names.
    reference : str or int, optional
        Compare all others with this one, given by its name or position. Default: every pair.
    chain : bool
        Compare each with the one before.
    test, permutations, alpha, blocks, robust, robust_method, seed, explain, regions
        As in `compare`.
    adjust : {"holm", "bh", "none"}
        How p-values are adjusted: by Holm (family-wise), Benjamini and Hochberg (false discovery rate), or
        not.
    progress : callable, optional
        Called with the pairs that are done, and the pairs there are.

    Returns
    -------
    Comparisons
        With `found`, a `Comparison` for each pair.

    Examples
    --------
    >>> by_country = {name: nysketch.sketch(rows, basis=basis) for name, rows in df.groupby("country")}
    >>> nysketch.compare_all(by_country, reference="DE")

    """
    if isinstance(sketches, Mapping):
        names, given = list(sketches), list(sketches.values())
    else:
        given = list(sketches)
        names = [
            os.fspath(one) if isinstance(one, str | os.PathLike) else f"sketch {number}"
            for number, one in enumerate(given, 1)
        ]
    if len(given) < 2:
        raise UsageError("there must be two sketches or more to compare")
    return compare_pairs(
        [as_sketch(one, f"the comparison with {name}") for one, name in zip(given, names, strict=True)],
        names,
        _pairs(names, reference, chain=chain),
        adjustment=adjust,
        progress=progress,
        test=test,
        permutations=permutations,
        alpha=alpha,
        blocks=blocks,
        robust=robust,
        robust_method=robust_method,
        seed=seed,
        explain=explain,
        regions=regions,
    )


def _pairs(names: list[str], reference: str | int | None, *, chain: bool) -> list[tuple[int, int]]:
    numbers = range(len(names))
    if reference is None:
        return list(pairwise(numbers) if chain else combinations(numbers, 2))
    if chain:
        raise UsageError("`chain` and `reference` exclude each other")
    if isinstance(reference, str):
        if reference not in names:
            raise UsageError(f"`reference`: there is no sketch {reference!r} among these")
        reference = names.index(reference)
    if reference not in numbers:
        raise UsageError(f"`reference`: there are sketches 0 to {len(names) - 1}, not {reference}")
    return [(reference, other) for other in numbers if other != reference]


def independence(
    sketch: Sketch | AnyPath | Iterable[Sketch | AnyPath],
    *,
    alpha: float = 0.05,
    permutations: int | None = None,
    pairs: bool = False,
    blocks: str = "auto",
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Independence:
    """Test groups of columns for independence, by the Hilbert-Schmidt independence criterion.

    Parameters
    ----------
    sketch : Sketch, path, or list of them
        A sketch with groups of columns: `sketch(data, groups={"x": ["a", "b"], "y": ["c"]})`.
    alpha : float
        Level of the test.
    permutations : int, optional
        Permutations of the sampled rows. Default: as many as the sketch was made for, and as `alpha` needs;
        0 for no test.
    pairs : bool
        Test all pairs of groups, too. The sketch must have been made with `pairs=True`.
    blocks : {"auto", "random", "consecutive"}
        What the test permutes: rows, which are taken as independent of each other, or groups as a whole,
        shifted against each other in the order of the rows, for rows that resemble their neighbours.
    seed : int
        Seed of the permutations.
    threads : int
        Threads that compute.
    progress : callable, optional
        Called with the tests that are done, and the tests there are.

    Returns
    -------
    Independence
        With `hsic`, `standard_error`, `p_value`, `rejected`, `pairs` and `notes`. `rejected` is None where
        there is no verdict, and a note says why.

    Examples
    --------
    >>> s = nysketch.sketch(df, groups={"weather": ["temp", "wind"], "delay": ["dep_delay"]})
    >>> nysketch.independence(s).p_value

    """
    return test_independence(
        as_sketch(sketch, "the test"),
        alpha=alpha,
        shuffles=permutations,
        pairs=pairs,
        blocks=blocks,
        seed=seed,
        threads=threads,
        progress=progress,
    )
