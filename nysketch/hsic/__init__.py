"""Tests of independence between groups of columns (HSIC).

independence.py   the test of a sketch: statistic, p-value, pairs
results.py        what it found
view.py           what a sketch knows of its groups
order.py          do rows depend on their neighbours, and in which groups?
copies.py         rows that are there several times
estimate.py       how large HSIC is, without the bias of landmarks; its error
statistic.py      HSIC of M groups at landmarks, and its distribution under independence
v_statistic.py    the test of few rows, by all pairs of them
_shifted.py       products of groups that were shifted against each other, compiled
_pairs.py         sums over pairs of rows of permuted groups, compiled
"""
