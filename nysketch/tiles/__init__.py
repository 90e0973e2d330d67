"""The hot loop: values of the functions of a basis at rows, summed. The only place that knows about speed.

chunk.py         consecutive rows of a fragment: the unit in which rows arrive
points.py        its rows as tiles take them: numbers, and codes of categories
summer.py        chunks assigned to blocks, evaluated and added up
hashing.py       which block a row belongs to, and whether to the sample
evaluators.py    which of the next three evaluates a basis
gaussian.py      Gaussian kernels: one float32 matrix product and an exponential
general.py       all other kernels of numbers, and Fourier features
product.py       the matrix product of a tile, by which values do not depend on places
reference.py     plain float64: the slow reference (`precision="float64"`), and strings
nearest.py       the nearest landmark of a row, and the sums of its cell
float64.py       values in float64, for coresets and second moments
vector_math.py   exp2, cosine and sine that vectorise
sums.py          sums of a fragment, and exact sums of all fragments so far
spans.py         sums of a fragment by span of consecutive rows
triangle.py      symmetric matrices, packed and summed exactly
sizes.py         how large tiles are

Every value depends on its row and its landmark only, not on where in a tile the row is, and is added
in float64. So batches, fragments and threads change nothing beyond 1e-15.
"""
