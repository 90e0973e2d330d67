"""Tests of independence between groups of columns (HSIC).

independence.py   the test of a sketch: statistic, p-value, pairs
statistic.py      HSIC of M groups, its error, and its distribution under independence
_shifted.py       products of groups that were shifted against each other, compiled
"""
