"""Two-sample tests between sketches: how far apart they are, whether by chance, and what moved.

compare.py            the comparison, one step after the other; pairs, chains, matrices
results.py            what can be asked, and what is answered
embeddings.py         two sketches in common coordinates
mmd.py                the maximum mean discrepancy of blocks of rows
outside.py            what the landmarks do not express, from sampled rows
permutation.py        permutation test and multiplier bootstrap
strategy.py           which blocks and which test suit these sketches
median_of_means.py    means that tolerate outliers (MONK)
block_descent.py      the algorithms of the paper on MONK, and their test
pooled.py             outlying blocks of two samples, found on both together
order.py              whether rows depend on their neighbours, despite outliers
trimming.py           blocks without the outlying ones
outliers.py           a comparison that leaves out corrupted blocks
moments.py            means and deviations of columns, without a few wild values
columns.py            what moved in each column, in its own terms
words.py              the same in words
explain.py            which columns shifted, and in which regions
multiple_testing.py   p-values of many comparisons
"""
