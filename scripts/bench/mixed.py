"""Mixed tables: numbers, categories and missing values. Is drift found, is dependence, how often without any?

    scripts/setup && .venv/bin/python scripts/bench/mixed.py [--section NAME] [--pairs N] [--json out]

The table is that of a shop: age (normal), amount (lognormal, `kinds={"amount": "log"}`), visits (Poisson),
score (normal, 1 % missing); plan (3 values), device (4, 1 % missing), city (8) and product (50, Zipf). All
are independent of each other, so that everything that is found is what was changed.

Sections (--section; all of them unless told otherwise):

  power         How often a change is found at 5 %, 20,000 rows a side, 100 pairs each. share: 5 points of
                plan move from the first value to the second; of product, from the tenth to the others; new:
                2 % of the cities are a new one; nulls: of score or of device, 1 % become 5 %; dependence:
                plan follows a latent normal variable that has the correlation ρ with age (or product with
                visits), and all marginal distributions stay. Landmarks from the first of the two samples
                ("first"), and from a third one ("third"). "columns": a test of each column of all rows (χ²
                of values, with missing ones as a value; Kolmogorov and Smirnov's of numbers), 5 % in all by
                Bonferroni, which sees no dependence
  level         How often a difference is found in 500 pairs without any. It must lie in the interval that
                99 % of such counts fall into if the level is right
  missing       The level and the power where score has no missing value at all in the pilot, and 0 % (level)
                or 4 % of them in the second sample (power)
  dependence    `independence` between plan and age, and between plan and device (cramped: with the same
                latent variable): 500 tables without dependence, 100 for each ρ, 2,000 rows; beside scipy's χ²
                test, of two categories, and the F test of the means by category
  speed         Seconds of a pass over a million rows, by kind of column

Sketches have 500 landmarks from a pilot of 5,000 rows (independence: 200), no cells, one thread, and
otherwise the defaults of `nysketch.sketch`; tests have 299 permutations, so that one at 5 % can have that
level exactly. Ten pairs share the basis of a third sample. One process takes more than an hour for
everything; --pairs 10 gives a quick look.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import scipy  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.stats import binom, chi2_contingency, f_oneway, ks_2samp, norm  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402

Floats = NDArray[np.float64]
Random = np.random.Generator
Result = dict[str, Any]

ALPHA, PERMUTATIONS, SHARED = 0.05, 299, 10
ROWS, DEPENDENCE_ROWS = 20_000, 2000
PAIRS = {"power": 100, "level": 500, "missing": 100, "dependence": 100, "speed": 3}

KINDS = {
    "amount": "log",
    "plan": "category",
    "device": "category",
    "city": "category",
    "product": "category",
}
PLANS = np.array(["free", "basic", "pro"])
PLAN_SHARES = np.array([0.5, 0.3, 0.2])
DEVICES, DEVICE_SHARES = np.array(["phone", "laptop", "tablet", "other"]), [0.5, 0.3, 0.15, 0.05]
CITIES = np.array([f"city {i}" for i in range(8)])
CITY_SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03])
PRODUCTS = np.array([f"product {i}" for i in range(50)])
PRODUCT_SHARES = (1 / np.arange(1, 51)) / (1 / np.arange(1, 51)).sum()


# ---- data -----------------------------------------------------------------------------------------


def picked(rng: Random, values: NDArray[Any], shares: Any, n: int) -> NDArray[Any]:
    return values[rng.choice(len(values), n, p=shares)]


def by_latent(rng: Random, values: NDArray[Any], shares: Any, normal: Floats, rho: float) -> NDArray[Any]:
    """Return values with these shares, which depend on normal numbers by a normal copula."""
    latent = rho * normal + np.sqrt(1 - rho**2) * rng.standard_normal(len(normal))
    return values[np.searchsorted(norm.ppf(np.cumsum(shares)[:-1]), latent)]


def with_nulls(rng: Random, values: NDArray[Any], share: float) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < share)


def shop(rng: Random, n: int, change: str = "", size: float = 0.0) -> pa.Table:
    """Return the table; `change` says what is different, `size` by how much."""
    sizes = {change: size}
    age = rng.standard_normal(n)
    rate = rng.standard_normal(n)
    plan_shares, product_shares = PLAN_SHARES.copy(), PRODUCT_SHARES.copy()
    plan_shares[:2] += sizes.get("share of plan", 0.0) * np.array([-1.0, 1.0])
    moved = sizes.get("share of product", 0.0)
    product_shares[0] -= moved
    product_shares[1:] *= (1 - product_shares[0]) / product_shares[1:].sum()
    plan = by_latent(rng, PLANS, plan_shares, age, sizes.get("plan and age", 0.0))
    product = by_latent(rng, PRODUCTS, product_shares, rate, sizes.get("product and visits", 0.0))
    city = picked(rng, CITIES, CITY_SHARES, n)
    new = rng.random(n) < sizes.get("new city", 0.0)
    devices = picked(rng, DEVICES, DEVICE_SHARES, n)
    return pa.table(
        {
            "age": 40 + 12 * age,
            "amount": np.exp(1.5 * rng.standard_normal(n)),
            "visits": scipy.stats.poisson.ppf(norm.cdf(rate), 4.0),
            "score": with_nulls(rng, rng.standard_normal(n), sizes.get("nulls of score", 0.01)),
            "plan": plan,
            "device": with_nulls(rng, devices, sizes.get("nulls of device", 0.01)),
            "city": np.where(new, "Atlantis", city),
            "product": product,
        }
    )


CHANGES: tuple[tuple[str, float], ...] = (
    ("share of plan", 0.05),
    ("share of product", 0.05),
    ("new city", 0.02),
    ("nulls of score", 0.05),
    ("nulls of device", 0.05),
    ("plan and age", 0.2),
    ("plan and age", 0.3),
    ("product and visits", 0.3),
)


# ---- sketches -------------------------------------------------------------------------------------

LEAN: dict[str, Any] = {"nulls": "keep", "threads": 1}
SMALL: dict[str, Any] = {"landmarks": 500, "pilot_rows": 5000}


def based_on(table: pa.Table, seed: int, **options: Any) -> nysketch.Basis:
    return nysketch.Basis.fit(table, kinds=KINDS, seed=seed, **LEAN, **SMALL | options)


@cache
def third(number: int, nulls: float = 0.01) -> nysketch.Basis:
    rng = np.random.default_rng([99, number])
    return based_on(shop(rng, ROWS, "nulls of score", nulls), number)


def rejected(first: pa.Table, second: pa.Table, basis: nysketch.Basis, seed: int) -> bool:
    a, b = (nysketch.sketch(table, basis=basis, seed=seed, cells=False, **LEAN) for table in (first, second))
    found = nysketch.compare(a, b, permutations=PERMUTATIONS, alpha=ALPHA, explain=False, seed=seed)
    return bool(found.rejected)


def share_found(work: Callable[[int], bool], pairs: int, label: str) -> float:
    bar = tqdm(range(pairs), label, file=sys.stderr, disable=None, leave=False)
    return float(np.mean([work(seed) for seed in bar]))


def interval(pairs: int) -> tuple[float, float]:
    """Return where the rate of a test with the right level is found in 99 % of all cases."""
    low, high = binom.interval(0.99, pairs, ALPHA)
    return float(low / pairs), float(high / pairs)


def in_band(found: float, pairs: int) -> Result:
    low, high = interval(pairs)
    inside = low <= found <= high
    return {"found": found, "99 % interval": f"{low:.3f}–{high:.3f}", "inside": inside}


def counts_of(first: pa.Array, second: pa.Array) -> NDArray[np.int64]:
    both = pa.chunked_array([*first.chunks, *second.chunks]).combine_chunks().dictionary_encode("encode")
    codes = both.indices.to_numpy(zero_copy_only=False)
    sides = np.arange(len(codes)) >= len(first)
    counts = np.zeros((2, len(both.dictionary)), np.int64)
    np.add.at(counts, (sides.astype(int), codes.astype(int)), 1)
    return counts[:, counts.sum(axis=0) >= 10]


def columns_differ(first: pa.Table, second: pa.Table) -> bool:
    """Return what tests of the columns say, one for each and one more for missing numbers."""
    found = []
    for name in first.column_names:
        x, y = first[name], second[name]
        if not pa.types.is_floating(x.type):
            found.append(chi2_contingency(counts_of(x, y)).pvalue)
            continue
        found.append(ks_2samp(x.drop_null().to_numpy(), y.drop_null().to_numpy()).pvalue)
        if x.null_count + y.null_count:
            found.append(chi2_contingency(counts_of(x.is_null(), y.is_null())).pvalue)
    return bool(min(found) * len(found) <= ALPHA)


# ---- drift ----------------------------------------------------------------------------------------


WHOSE = ("first", "third", "columns")


def drift_rate(change: str, size: float, whose: str, pairs: int, seed: int) -> float:
    def work(number: int) -> bool:
        rng = np.random.default_rng([seed, number])
        x, y = shop(rng, ROWS), shop(rng, ROWS, change, size)
        if whose == "columns":
            return columns_differ(x, y)
        basis = based_on(x, number) if whose == "first" else third(number // SHARED)
        return rejected(x, y, basis, number)

    return share_found(work, pairs, f"{change} {size} {whose}")


def power(pairs: int | None, seed: int) -> Iterator[Result]:
    pairs = pairs or PAIRS["power"]
    for change, size in CHANGES:
        found = {whose: drift_rate(change, size, whose, pairs, seed) for whose in WHOSE}
        yield {"table": "Drift: found at 5 %", "change": change, "size": size, "pairs": pairs} | found


def level(pairs: int | None, seed: int) -> Iterator[Result]:
    pairs = pairs or PAIRS["level"]
    for whose in WHOSE:
        found = drift_rate("", 0.0, whose, pairs, seed)
        yield {"table": "No drift: found at 5 %", "basis": whose, "pairs": pairs} | in_band(found, pairs)


def missing(pairs: int | None, seed: int) -> Iterator[Result]:
    for share in (0.0, 0.04):
        many = pairs or PAIRS["missing"]

        def work(number: int, share: float = share) -> bool:
            rng = np.random.default_rng([seed, number, 5])
            x, y = (shop(rng, ROWS, "nulls of score", nulls) for nulls in (0.0, share))
            return rejected(x, y, third(number // SHARED, 0.0), number)

        found = share_found(work, many, f"missing {share}")
        yield {
            "table": "No missing score in the pilot: found at 5 %",
            "missing in the second": share,
            "pairs": many,
        } | in_band(found, many)


# ---- dependence -----------------------------------------------------------------------------------


def dependent(rng: Random, n: int, rho: float, what: str) -> pa.Table:
    age = rng.standard_normal(n)
    plan = by_latent(rng, PLANS, PLAN_SHARES, age, rho)
    if what == "age":
        return pa.table({"plan": plan, "age": age})
    other = age if rho else rng.standard_normal(n)
    return pa.table({"plan": plan, "device": by_latent(rng, DEVICES, DEVICE_SHARES, other, rho)})


def classical(table: pa.Table, what: str) -> bool:
    """Return what the usual test of such columns says: χ² of two categories, F of a number by category."""
    plans = np.unique(table["plan"].to_numpy(), return_inverse=True)[1]
    if what == "age":
        age = table["age"].to_numpy()
        return bool(f_oneway(*(age[plans == code] for code in np.unique(plans))).pvalue <= ALPHA)
    devices = np.unique(table["device"].to_numpy(), return_inverse=True)[1]
    counts = np.zeros((plans.max() + 1, devices.max() + 1))
    np.add.at(counts, (plans, devices), 1)
    return bool(chi2_contingency(counts).pvalue <= ALPHA)


def dependence(pairs: int | None, seed: int) -> Iterator[Result]:
    for what in ("age", "device"):
        kinds = {"plan": "category"} | ({"device": "category"} if what == "device" else {})
        for rho in (0.0, 0.05, 0.1, 0.2) if what == "age" else (0.0, 0.2, 0.3, 0.4):
            many = pairs or PAIRS["dependence"] * (1 if rho else 5)
            usual: list[bool] = []

            def work(number: int, case: Any = (what, rho, kinds, usual)) -> bool:
                what, rho, kinds, usual = case
                table = dependent(np.random.default_rng([seed, number, 6]), DEPENDENCE_ROWS, rho, what)
                usual.append(classical(table, what))
                groups = {"plan": ["plan"], what: [what]}
                sketch = nysketch.sketch(
                    table, kinds=kinds, groups=groups, landmarks=200, seed=number, **LEAN
                )
                found = nysketch.independence(sketch, permutations=PERMUTATIONS, seed=number)
                return bool(found.rejected)

            found = share_found(work, many, f"{what} {rho}")
            row = {"table": "A category and another column: found dependent at 5 %"}
            row |= {"with": what, "ρ": rho, "tables": many, "found": found}
            yield row | {"χ² or F": float(np.mean(usual)), "99 % interval": in_band(0, many)["99 % interval"]}


# ---- speed ----------------------------------------------------------------------------------------


def speed(pairs: int | None, seed: int) -> Iterator[Result]:
    n = 1_000_000
    rng = np.random.default_rng(seed)
    table = pa.concat_tables([shop(rng, n // 10) for _ in range(10)])
    numbers = ["age", "amount", "visits"]
    cases: list[tuple[str, pa.Table, dict[str, str]]] = [
        ("3 numbers", table.select(numbers), {}),
        ("3 numbers, 4 categories, missing values", table, KINDS),
    ]
    for name, chosen, kinds in cases:
        basis = nysketch.sketch(chosen, kinds=kinds, seed=seed, cells=False, **LEAN).basis
        times = []
        for _ in range(pairs or PAIRS["speed"]):
            start = time.perf_counter()
            nysketch.sketch(chosen, basis=basis, **LEAN)
            times.append(time.perf_counter() - start)
        taken = sorted(times)[len(times) // 2]
        yield {"table": "Seconds of a pass, one thread", "columns": name, "rows": n, "median": taken}


SECTIONS: dict[str, Callable[[int | None, int], Iterator[Result]]] = {
    "power": power,
    "level": level,
    "missing": missing,
    "dependence": dependence,
    "speed": speed,
}


# ---- what is shown --------------------------------------------------------------------------------


def shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def print_results(results: list[Result]) -> None:
    for table in dict.fromkeys(row["table"] for row in results):
        rows = [row for row in results if row["table"] == table]
        header = [name for name in rows[0] if name not in ("table", "section")]
        print(f"\n{table}:\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
        for row in rows:
            print(f"| {' | '.join(shown(row[name]) for name in header)} |")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=[*SECTIONS], metavar="NAME")
    parser.add_argument("--pairs", type=int, help="pairs or tables per case, instead of what sections say")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the numbers here; other sections stay")
    return parser.parse_args()


def main() -> None:
    options = parse()
    kept: list[Result] = []
    if options.json and options.json.exists():
        kept = [r for r in json.loads(options.json.read_text()) if r["section"] not in options.section]
    results: list[Result] = []
    for section in options.section:
        start = time.perf_counter()
        for result in SECTIONS[section](options.pairs, options.seed):
            results.append({"section": section} | result)
            if options.json:
                options.json.write_text(json.dumps(kept + results, indent=1))
        print(f"{section}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print(f"{platform.machine()}, NumPy {np.__version__}, SciPy {scipy.__version__}; seed {options.seed}")
    print_results(results)


if __name__ == "__main__":
    main()
