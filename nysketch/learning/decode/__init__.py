"""From a sketch to a mixture, without the data.

evidence.py          what a sketch says: moments, cells as points, a sample, where data may be
decoders.py          clomp, shift, quadrature, cells: evidence → mixture
select.py            which of their results to believe
mixture.py           Mixture: weights, means, covariances
atoms.py             mean values of the functions of a basis under Gaussians and points, and their gradients
whitening.py         the coordinates in which moments are compared
moment_matching.py   moving a mixture until its moments are those of the sketch
pursuit.py           finding atoms one by one
quadrature.py        weights on landmarks that reproduce the sketch
mixed.py             EM on cells for columns with kinds
points.py            weighted points with a spread
weighted_kmeans.py   k-means on such points
em.py                expectation–maximisation on such points

Everything is in the scaled units of the basis; learner.py makes models in the data's units of it.
"""
