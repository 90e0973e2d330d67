"""Basis: the functions of a row whose sums are a sketch, and how they are chosen.

base.py              what all bases share: columns, scaling, digest, which are compatible
nystrom.py           kernel values at landmarks, and the Nyström feature map
fourier.py           random Fourier features
stored.py            from what a file holds to a basis
options.py           what can be asked for when a basis is made
layout.py            where the numbers of a row are, and the features made of them
translation.py       features at one basis as those at another
encoding.py          what the kinds of columns take from pilot rows
emphasis.py          columns that count more than others
scaling.py           centre and scale of columns; wild values
landmarks.py         which rows become landmarks
rare_codes.py        landmarks for values of categories that the pilot hardly shows
clumps.py            clumps of rows that are too narrow for a kernel
quality.py           how good landmarks are: projection error against sampling error
rules.py             how many landmarks theory asks for
residual_kernel.py   what landmarks cannot express, from pairs of sampled rows
fit.py               from pilot rows to a basis

Rows arrive as arrays; reading them is the business of passes/pilot.py.
"""
