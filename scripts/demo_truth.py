"""Compare models learned from a sketch with the truth: the clusters that the demonstration table names.

    python scripts/demo_truth.py demo/clusters.parquet demo/centroids.json demo/mixture.json

For every centre, the true cluster nearest to it, how far it is from the mean of that cluster's rows (in
standard deviations of a column), and the shares of both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nysketch.models.files import load_model
from nysketch.models.kmeans import KMeansModel

Floats = NDArray[np.float64]


def true_clusters(path: Path, columns: list[str]) -> tuple[list[str], Floats, Floats, Floats]:
    """Return the names of the clusters, their shares, means and standard deviations; reads by row group."""
    counts: dict[str, int] = {}
    sums: dict[str, Floats] = {}
    squares: dict[str, Floats] = {}
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        table = file.read_row_group(number, columns=[*columns, "cluster"])
        rows = np.stack([table[name].to_numpy().astype(np.float64) for name in columns], axis=1)
        labels = table["cluster"].to_numpy(zero_copy_only=False)
        for label in np.unique(labels.astype(str)):
            part = rows[labels == label]
            counts[label] = counts.get(label, 0) + len(part)
            sums[label] = sums.get(label, np.zeros(len(columns))) + part.sum(axis=0)
            squares[label] = squares.get(label, np.zeros(len(columns))) + (part**2).sum(axis=0)
    names = sorted(counts)
    n = np.array([counts[name] for name in names], float)
    means = np.stack([sums[name] for name in names]) / n[:, None]
    deviations = np.sqrt(np.stack([squares[name] for name in names]) / n[:, None] - means**2)
    return names, n / n.sum(), means, deviations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    options = parser.parse_args()
    for path in options.models:
        model = load_model(path)
        names, shares, means, deviations = true_clusters(options.table, model.features)
        centres, found = (
            (model.centroids, model.shares)
            if isinstance(model, KMeansModel)
            else (model.means, model.weights)
        )
        print(f"{path}:")
        print("  centre  cluster  off by (sd)  share  true share")
        for number, centre in enumerate(centres):
            nearest = int(((means - centre) ** 2).sum(axis=1).argmin())
            off = np.sqrt((((centre - means[nearest]) / deviations[nearest]) ** 2).mean())
            both = f"{found[number]:.3f}  {shares[nearest]:10.3f}"
            print(f"  {number:6d}  {names[nearest]:>7}  {off:11.4f}  {both}")


main()
