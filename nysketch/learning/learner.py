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
from nysketch.errors import InputError, UsageError
from nysketch.learning.certificate import certificate, why_none
from nysketch.learning.decode.decoders import DECODERS, MATCH_MOMENTS, Step, Task
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixed import MixedLearner
from nysketch.learning.decode.mixture import COVARIANCES, Mixture
from nysketch.learning.decode.select import AUTO, Candidate, Judge, candidates
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.trimming import Trimmed, trim

# A model that has only itself to be judged by is believed if there are so many independent sums for each of
# its parameters, and if it matches them up to so many times what chance does. On mixtures of Gaussians it
# called its mean squared distance up to 69 % too low with fewer sums, and 0 to 5 % with more; on heavy tails,
# where it matched them worse than that, 13 to 20 %, with any number (scripts/bench/learn.py, section itself).
_SUMS_PER_PARAMETER = 1.8
_WORST_FIT = 2.0
# A number with more digits than the command meant would have no end.
_MOST_TRIALS = 10_000

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
        robust: int | str | None = None,
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
        if trials is not None and trials > _MOST_TRIALS:
            raise UsageError(f"`trials` must be at most {_MOST_TRIALS:,}")
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
        if self._evidence.basis.encoded and decoder not in (AUTO, "cells"):
            raise UsageError(
                f'`decoder="{decoder}"` works on sums of plain numbers, and columns of this sketch have '
                'kinds. Use `decoder="cells"`'
            )
        self._mixed: MixedLearner | None = None
        if self._evidence.basis.encoded and covariance is not None:
            self._mixed = MixedLearner(self._evidence, covariance, seed)

    def model(self, k: int) -> AnyModel:
        """Return the best model with k clusters or components: a KMeansModel or a MixtureModel."""
        if k < 1:
            raise UsageError(f"`k` must be at least 1, not {k}")
        if self._mixed is not None:
            return self._mixed_model(self._mixed, k)
        task = Task(k, self._covariance, self._trials)
        import sklearn.cluster  # noqa: F401 - the limit below reaches only libraries that are loaded

        # Thousands of small products: threads cost more than they bring, and much more on a busy machine.
        # Of columns that vary 1e150 times less than others, variances are no numbers; the model is refused.
        with one_thread(), np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = candidates(self._evidence, task, self._decoder, self._judge, self._seed, self._steps(k))
        best = self._judge.best(found)
        try:
            model = self._in_data_units(best.mixture.normalise())
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                return replace(model, facts=self._facts(model, found, best))
        except ValueError as error:
            raise InputError(
                f"the model that was found cannot be stored: {error}. Some columns vary far less than "
                'others, or far more: sketch with `scale="standard"`, or leave them out with `exclude`'
            ) from error

    def _mixed_model(self, learner: MixedLearner, k: int) -> AnyModel:
        """Return a mixture of columns with kinds."""
        import sklearn.cluster  # noqa: F401 - the limit below reaches only libraries that are loaded

        with one_thread(), np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            fit = learner.fit(k, self._trials, self._steps(k)("cells"))
        model = self._in_data_units(fit.mixture)
        assert isinstance(model, MixtureModel)
        sketch = self._evidence.sketch
        sampled = fit.standard_error is not None
        return replace(
            model,
            facts={
                "basis_digest": sketch.basis.digest,
                "bic": self._bic(model, fit.log_likelihood),
                "candidates": [
                    {"certified": None, "decoder": "cells", "estimate": fit.log_likelihood, "objective": None}
                ],
                "certified_log_likelihood": None,
                "decoder": "cells",
                "judged_by": "sample" if sampled else "cells",
                "mean_log_likelihood": fit.log_likelihood,
                "mean_log_likelihood_se": fit.standard_error,
                "not_certified": "there is no certificate for mixtures of columns with kinds",
                "not_estimated": None,
                "notes": [],
                "objective": None,
                "robust": None,
                "rows": sketch.rows,
                "seed": self._seed,
                "total_weight": sketch.total_weight,
            },
        )

    def _in_data_units(self, mixture: Mixture) -> AnyModel:
        # The largest first: which comes out first is chance otherwise.
        mixture = mixture.only(np.argsort(-mixture.weights, kind="stable"))
        basis = self._evidence.basis
        means = mixture.means * basis.scale + basis.center
        if self._covariance is None:
            return KMeansModel(
                columns=basis.columns,
                scale=basis.scale,
                centroids=means,
                shares=mixture.weights,
                fill=basis.fill if basis.encoded else None,
            )
        units = np.outer(basis.scale, basis.scale) if mixture.full else basis.scale**2
        return MixtureModel(
            columns=basis.columns,
            scale=basis.scale,
            weights=mixture.weights,
            means=means,
            covariances=mixture.covariances * units,
            covariance_type=self._covariance,
            fill=basis.fill if basis.encoded else None,
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
        sums, parameters = self._sums(best), _parameters(model)
        unknown = self._why_unknown(best, sums, parameters) if self._judge.judged_by == "fit" else None
        listed = [{"decoder": c.decoder} | self._scores(c) for c in found]
        facts: dict[str, Any] = {
            "basis_digest": sketch.basis.digest,
            "candidates": [c | {"estimate": None} for c in listed] if unknown else listed,
            "decoder": best.decoder,
            "judged_by": self._judge.judged_by,
            "not_estimated": unknown,
            "notes": [_undetermined(model, sums, parameters)] if sums < parameters else [],
            "objective": best.scores.objective,
            "robust": None if self._trimmed is None else self._trimmed.describe(),
            "rows": sketch.rows,
            "seed": self._seed,
            "total_weight": sketch.total_weight,
        }
        scores = self._scores(best)
        certified = scores["certified"]
        # An estimate may be on the wrong side of what is known for certain: by chance, not by much.
        estimate: float = scores["estimate"]
        if isinstance(model, KMeansModel):
            distance = estimate if certified is None else min(estimate, certified)
            facts["mean_squared_distance"] = None if unknown else distance
            facts |= certificate(sketch, model, self._evidence)
            return facts | {"not_certified": self._why_not_certified(facts["certified_bound"])}
        likelihood = estimate if certified is None else max(estimate, certified)
        return facts | {
            "bic": None if unknown else self._bic(model, estimate),
            "certified_log_likelihood": certified,
            "mean_log_likelihood": None if unknown else likelihood,
            "mean_log_likelihood_se": best.scores.standard_error,
            "not_certified": self._why_not_certified(certified),
        }

    def _why_not_certified(self, certified: float | None) -> str | None:
        if certified is not None:
            return None
        if self._trimmed is not None:
            return "outliers are in the cells, too, so that a robust model does not use them"
        return why_none(self._evidence, full=self._covariance == "full")

    def _sums(self, best: Candidate) -> float:
        """Return how many independent numbers a model was fitted to; cells are never too few."""
        return self._evidence.basis.rank if best.decoder in MATCH_MOMENTS else math.inf

    def _why_unknown(self, best: Candidate, sums: float, parameters: int) -> str | None:
        """Say why a model cannot judge itself, if it cannot."""
        alone = "the sketch has neither cells nor a sample to measure it on, and the fit would flatter itself"
        if sums < _SUMS_PER_PARAMETER * parameters:
            return f"{alone}: {sums:,} independent kernel sums are too few for {parameters:,} parameters"
        objective = best.scores.objective
        if objective is not None and objective > _WORST_FIT:
            return f"{alone}: it does not match the kernel sums (objective {objective:.3g}; chance gives 1)"
        return None

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


def _parameters(model: AnyModel) -> int:
    """Return how many numbers are to be found: of k-means a centre and a share for each cluster."""
    return model.k * (model.d + 1) if isinstance(model, KMeansModel) else model.n_parameters


def _undetermined(model: AnyModel, sums: float, parameters: int) -> str:
    what = "clusters" if isinstance(model, KMeansModel) else "components"
    return (
        f"{model.k:,} {what} of {model.d:,} features have {parameters:,} parameters, and the sketch has only "
        f"{sums:,} independent kernel sums: these do not determine the model, and it may be far off. Sketch "
        f"with at least {2 * parameters:,} landmarks, or keep the cells, or look for fewer {what}"
    )


def _log_if_overwhelmed(found: Trimmed) -> None:
    if found.overwhelmed:
        log.warning(
            "%d blocks of rows are outliers: too many for a median of %d groups, so the model may describe "
            "corrupted rows. Use a larger `robust`, or sketch with more `blocks`",
            len(found.left_out),
            found.groups,
        )
