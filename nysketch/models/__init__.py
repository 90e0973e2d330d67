"""Models: cluster centres and Gaussian mixtures, and what they say of rows.

base.py         what all models share
columns.py      columns and their kinds in the file of a model
kmeans.py       cluster centres
mixture.py      mixtures
mixed.py        mixtures of columns with kinds: categories and circles beside Gaussians
stored.py       from what a file holds to a model
files.py        model files: JSON, Parquet, NumPy
apply.py        labels of all rows of a source
score.py        how well a model fits the rows of a source
present.py      clusters in the terms of their columns
refine.py       Lloyd's algorithm and EM over all rows of a source
inspection.py   what a file of a model, a sketch or a basis holds, and whether it is sound
"""
