"""Write two months of orders of a made-up shop, january.csv and february.csv, as used by the tutorial.

    python scripts/demo_orders.py [FOLDER]

There are three kinds of orders. In February, furniture takes a day longer to arrive; nothing else changes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

ROWS = 20_000
KINDS = [  # share; then mean and deviation of log price, items, days to deliver, age of the customer
    (0.5, (3.0, 0.3), (6.0, 1.5), (1.5, 0.4), (35.0, 8.0)),  # groceries
    (0.3, (3.8, 0.3), (1.5, 0.5), (3.0, 0.7), (48.0, 9.0)),  # gifts
    (0.2, (6.0, 0.4), (2.0, 0.8), (9.0, 1.5), (41.0, 7.0)),  # furniture
]
COUNTRIES = ["AT", "CH", "DE"]


def write(path: Path, seed: int, delay: float) -> None:
    random = np.random.default_rng(seed)
    kinds = random.choice(len(KINDS), size=ROWS, p=[kind[0] for kind in KINDS])
    countries = random.choice(COUNTRIES, size=ROWS)
    with path.open("w") as file:
        file.write("price,items,days,age,country\n")
        for kind, country in zip(kinds, countries, strict=True):
            price, items, days, age = (random.normal(*moments) for moments in KINDS[kind][1:])
            days += delay * (kind == 2)
            numbers = (
                f"{np.exp(price):.2f}",
                f"{max(1, round(items))}",
                f"{max(0.1, days):.1f}",
                f"{age:.0f}",
            )
            file.write(",".join([*numbers, country]) + "\n")
    print(f"{path}: {ROWS:,} orders")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    folder = parser.parse_args().folder
    write(folder / "january.csv", 1, 0.0)
    write(folder / "february.csv", 2, 1.0)


if __name__ == "__main__":
    main()
