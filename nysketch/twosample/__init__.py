"""Two-sample tests between sketches: how far apart they are, whether by chance, and what moved.

compare.py            the comparison, one step after the other; pairs, chains, matrices
results.py            what can be asked, and what is answered
embeddings.py         two sketches in common coordinates
mmd.py                the maximum mean discrepancy of blocks of rows
permutation.py        permutation test and multiplier bootstrap
strategy.py           which blocks and which test suit these sketches
median_of_means.py    means that tolerate outliers (MONK)
trimming.py           blocks without the outlying ones
outliers.py           a comparison that leaves out corrupted blocks
explain.py            which columns shifted, and in which regions
multiple_testing.py   p-values of many comparisons
"""
