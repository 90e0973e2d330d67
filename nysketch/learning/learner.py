"""Learning from a saved sketch: sketch → model, for one number of clusters at a time.

decode/ finds a mixture; here it becomes a model in the units of the data, which says how it was obtained and
how good it is, as far as a sketch can tell. What holds for certain is in certificate.py; sweep.py chooses the
number of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nysketch._support.blas import one_thread
from nysketch._support.notices import log
from nysketch._support.seeds import require_seed
from nysketch.errors import UsageError
from nysketch.learning.certificate import certificate
from nysketch.learning.decode.decoders import DECODERS, Step, Task
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import COVARIANCES, Mixture
from nysketch.learning.decode.select import AUTO, Candidate, Judge, candidates
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.trimming import Trimmed, trim

# Called with what is being done, and how many steps of it are done.
DecodingProgress = Callable[[str, int], None]


class Learner:
    """Learns models from one sketch; what the sketch says is worked out once, for any number of them.

    Without a covariance it learns centroids; with one (spherical, diag, full) a mixture of Gaussians.
    """

    def __init__(
        self,
        sketch: Sketch,
        *,
        covariance: str | None = None,
        decoder: str = AUTO,
        trials: int | None = None,
        seed: int = 0,
        robust: int | None = None,
        progress: DecodingProgress | None = None,
    ) -> None:
        """Learn from the kernel sums of blocks that agree if `robust`, a number of groups, is given."""
        require_seed(seed)
        if decoder != AUTO and decoder not in DECODERS:
            raise UsageError(f"`decoder` must be one of {', '.join([AUTO, *DECODERS])}, not {decoder!r}")
        if covariance is not None and covariance not in COVARIANCES:
            raise UsageError(f"`covariance` must be one of {', '.join(COVARIANCES)}, not {covariance!r}")
        if trials is not None and trials < 1:
            raise UsageError(f"`trials` must be at least 1, not {trials}")
        self._trimmed = None if robust is None else trim(sketch, robust, seed=seed)
        if self._trimmed is not None:
            _log_if_overwhelmed(self._trimmed)
            sketch = self._trimmed.sketch
            if decoder == "cells":
                raise UsageError(
                    "outliers are in the cells, too, so `robust` does not use them. Leave out "
                    '`decoder="cells"`'
                )
        self._evidence = Evidence(sketch, cautious=robust is not None)
        self._judge = Judge(self._evidence, covariance, seed)
        self._covariance, self._decoder, self._trials, self._seed = covariance, decoder, trials, seed
        self._progress = progress

    def model(self, k: int) -> AnyModel:
        """Return the best model with k clusters or components: a KMeansModel or a MixtureModel."""
        if k < 1:
            raise UsageError(f"`k` must be at least 1, not {k}")
        task = Task(k, self._covariance, self._trials)
        import sklearn.cluster  # noqa: F401 - the limit below reaches only libraries that are loaded

        # Thousands of small products: threads cost more than they bring, and much more on a busy machine.
        with one_thread():
            found = candidates(self._evidence, task, self._decoder, self._judge, self._seed, self._steps(k))
        best = self._judge.best(found)
        model = self._in_data_units(best.mixture.normalise())
        return replace(model, facts=self._facts(model, found, best))

    def _in_data_units(self, mixture: Mixture) -> AnyModel:
        # The largest first: which comes out first is chance otherwise.
        mixture = mixture.only(np.argsort(-mixture.weights, kind="stable"))
        basis = self._evidence.basis
        means = mixture.means * basis.scale + basis.center
        if self._covariance is None:
            return KMeansModel(
                columns=basis.columns, scale=basis.scale, centroids=means, shares=mixture.weights
            )
        units = np.outer(basis.scale, basis.scale) if mixture.full else basis.scale**2
        return MixtureModel(
            columns=basis.columns,
            scale=basis.scale,
            weights=mixture.weights,
            means=means,
            covariances=mixture.covariances * units,
            covariance_type=self._covariance,
        )

    def _steps(self, k: int) -> Callable[[str], Step]:
        def of_decoder(name: str) -> Step:
            done = 0

            def step() -> None:
                nonlocal done
                done += 1
                if self._progress is not None:
                    self._progress(f"k = {k}, {name}", done)

            return step

        return of_decoder

    def _facts(self, model: AnyModel, found: list[Candidate], best: Candidate) -> dict[str, Any]:
        """Return how the model was found, and how good it is."""
        sketch = self._evidence.sketch
        facts: dict[str, Any] = {
            "basis_digest": sketch.basis.digest,
            "candidates": [{"decoder": c.decoder} | self._scores(c) for c in found],
            "decoder": best.decoder,
            "judged_by": self._judge.judged_by,
            "objective": best.scores.objective,
            "robust": None if self._trimmed is None else self._trimmed.describe(),
            "rows": sketch.rows,
            "seed": self._seed,
            "total_weight": sketch.total_weight,
        }
        scores = self._scores(best)
        certified = scores["certified"]
        # An estimate may be on the wrong side of what is known for certain: by chance, not by much.
        if isinstance(model, KMeansModel):
            distance = scores["estimate"] if certified is None else min(scores["estimate"], certified)
            facts["mean_squared_distance"] = distance
            return facts | certificate(sketch, model, self._evidence)
        likelihood = scores["estimate"] if certified is None else max(scores["estimate"], certified)
        return facts | {
            "bic": self._bic(model, scores["estimate"]),
            "certified_log_likelihood": certified,
            "mean_log_likelihood": likelihood,
            "mean_log_likelihood_se": best.scores.standard_error,
        }

    def _scores(self, candidate: Candidate) -> dict[str, Any]:
        """Return the scores; densities are per unit of the data, distances stay in scaled units."""
        scores = candidate.scores.describe()
        if self._covariance is None:
            return scores
        shift = float(np.log(self._evidence.basis.scale).sum())
        for name in ("certified", "estimate"):
            if scores[name] is not None:
                scores[name] -= shift
        return scores

    def _bic(self, model: MixtureModel, mean_log_likelihood: float) -> float:
        """Return the Bayesian information criterion of the rows that the likelihood was measured on."""
        n = self._judge.independent_rows
        return -2 * n * mean_log_likelihood + model.n_parameters * math.log(n)


def _log_if_overwhelmed(found: Trimmed) -> None:
    if found.overwhelmed:
        log.warning(
            "%d blocks of rows are outliers: too many for a median of %d groups, so the model may describe "
            "corrupted rows. Use a larger `robust`, or sketch with more `blocks`",
            len(found.left_out),
            found.groups,
        )
