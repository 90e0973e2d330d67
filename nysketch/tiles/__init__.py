"""The hot loop: sums over rows of the functions of a basis. The only place that knows about speed.

summer.py           a chunk of rows, added to all statistics
hashing.py          which block a row belongs to, and whether to the sample
sample.py           the sample of a chunk of rows
gaussian.py         Gaussian kernels: one float32 matrix product and an exponential
general.py          all other kernels of numbers, and Fourier features
reference.py        plain float64: the slow reference (`precision="float64"`), and strings
evaluators.py       which of these three evaluates a basis
nearest.py          the nearest landmark of a row, and the sums of its cell
float64.py          values in float64, for coresets and second moments
vector_math.py      exp2, cosine and sine that vectorise
sums.py             sums of a fragment, and of all fragments so far
spans.py            the same by span of consecutive rows
groups.py           the same for groups of columns
second_moments.py   products of two values, summed
sizes.py            how large tiles are

Every value depends on its row and its landmark only, not on where in a tile the row is, and is added
in float64. So batches, fragments and threads change nothing beyond 1e-15.
"""
