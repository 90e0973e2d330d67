"""What can be asked for when a basis is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from nysketch.basis import landmarks, quality
from nysketch.basis.base import SCALINGS
from nysketch.basis.emphasis import parse_emphasis
from nysketch.basis.fourier import DRAWS
from nysketch.errors import UsageError
from nysketch.kernels import Gaussian, KernelOptions, bandwidths
from nysketch.kernels.base import whole
from nysketch.kinds import parse_kinds

AUTO = bandwidths.AUTO
FEATURES = ("nystrom", "fourier")
DEFAULT_LANDMARKS = 1000
DEFAULT_CAP = quality.MEASURED_UP_TO
DEFAULT_SAMPLING = "kmeans++"
SCALES = (AUTO, *SCALINGS)

# What was done before there was "auto": what is there already stays as it was made.
BEFORE_AUTO = {"scaling": "standard", "bandwidth": "median"}


@dataclass(frozen=True)
class BasisOptions:
    """How to make a basis when none is given.

    `m` is a number or "auto", which finds one up to `max_landmarks`. `scaling` "auto" is "standard" without
    wild values: see scaling.py. `kernel`, `bandwidth`, `degree`, `offset`, `length`, `decay` and `groups` are
    those of `nysketch.kernels.KernelOptions`. `kinds` are those of columns that are no plain numbers.
    Columns with a factor in `emphasis` count that much more.
    """

    m: int | str = DEFAULT_LANDMARKS
    max_landmarks: int = DEFAULT_CAP
    features: str = "nystrom"
    frequencies: str = "gaussian"
    sampling: str = DEFAULT_SAMPLING
    scaling: str = AUTO
    kernel: str | Mapping[str, str] = "gaussian"
    bandwidth: str | Mapping[str, str] = AUTO
    degree: int = 2
    offset: float = 1.0
    length: int = 3
    decay: float = 0.5
    groups: Mapping[str, Sequence[str]] | None = None
    pilot_rows: int | None = None
    kinds: Mapping[str, str] | Sequence[str] | None = None
    emphasis: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for what, value, known in (
            ("scale", self.scaling, SCALES),
            ("sampling", self.sampling, landmarks.SAMPLINGS),
            ("features", self.features, FEATURES),
            ("frequencies", self.frequencies, DRAWS),
        ):
            if value not in known:
                raise UsageError(f"`{what}` must be one of {', '.join(known)}, not {value!r}")
        if isinstance(self.m, str) and self.m != AUTO:
            raise UsageError(f"`landmarks` must be a number or 'auto', not {self.m!r}")
        # NumPy's numbers are not JSON's.
        for name in ("m", "max_landmarks", "degree", "length", "pilot_rows"):
            value = getattr(self, name)
            if value is not None and value != AUTO:
                object.__setattr__(self, name, whole(value, "landmarks" if name == "m" else name))
        for name in ("offset", "decay"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.most < 1:
            raise UsageError(f"`landmarks` must be at least 1, not {self.most}")
        if self.pilot_rows is not None and self.pilot_rows < 1:
            raise UsageError(f"`pilot_rows` must be at least 1, not {self.pilot_rows}")
        object.__setattr__(self, "bandwidth", _bandwidth_text(self.bandwidth))
        if self.groups is not None:
            groups = {name: [*columns] for name, columns in self.groups.items()}
            object.__setattr__(self, "groups", groups)
        kinds = {name: str(request) for name, request in parse_kinds(self.kinds).items()}
        object.__setattr__(self, "kinds", kinds or None)
        object.__setattr__(self, "emphasis", parse_emphasis(self.emphasis) or None)
        self._require_kernel()
        if self.emphasis and self.text:
            raise UsageError("string kernels read one text column: leave out `emphasis`")
        if self.features == "fourier":
            self._require_fourier()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> BasisOptions:
        """Make options from keyword arguments; name the one that does not exist."""
        known = {field.name for field in fields(cls)}
        for name in options:
            if name not in known:
                listed = ", ".join(field.name for field in fields(cls))
                raise UsageError(f"there is no option {name!r} for making a basis; there are {listed}")
        return cls(**options)

    def _require_kernel(self) -> None:
        """Raise a UsageError unless there is such a kernel, with such parameters."""
        self.kernel_options()

    def _require_fourier(self) -> None:
        if self.kernel != Gaussian.name or self.groups or "," in str(self.bandwidth):
            raise UsageError("Fourier features need the gaussian kernel with one bandwidth")
        if self.m == AUTO:
            raise UsageError('`landmarks="auto"` cannot choose the number of Fourier features; give a number')
        if self.sampling != DEFAULT_SAMPLING:
            raise UsageError("Fourier features have no landmarks: leave out `sampling`")
        if self.most % 2:
            raise UsageError(f"Fourier features come in pairs: `landmarks` must be even, not {self.m}")

    @property
    def most(self) -> int:
        """The number of landmarks, or the largest that 'auto' may choose."""
        return self.max_landmarks if isinstance(self.m, str) else self.m

    @property
    def stored_scaling(self) -> str:
        """The name that a basis has for it: without wild values, or with them, it is a standard deviation."""
        return "standard" if self.scaling == AUTO else self.scaling

    def describe(self) -> dict[str, Any]:
        """Return what sketches and stores remember: of options that came later, those that were used."""
        described = asdict(self)
        later = ("kinds", "emphasis")
        return {name: value for name, value in described.items() if name not in later or value is not None}

    def before_auto(self) -> BasisOptions:
        """Return what these options were before "auto" was the default of scale and bandwidth."""
        values: dict[str, Any] = {
            name: value for name, value in BEFORE_AUTO.items() if getattr(self, name) == AUTO
        }
        return replace(self, **values)

    @property
    def text(self) -> bool:
        """Whether the kernel is one of strings."""
        return self.kernel_options().text

    def columns_to_read(self, columns: Sequence[str] | None) -> Sequence[str] | None:
        """Return the columns a source must have for this basis, where the user named `columns` or none."""
        if not self.groups:
            return columns
        if columns:
            raise UsageError("the groups determine the columns: leave out `columns`")
        return [name for names in self.groups.values() for name in names]

    def kernel_options(self) -> KernelOptions:
        """Return the kernel that was asked for; of Fourier features, a kernel has one bandwidth."""
        one = self.features == "fourier" and self.bandwidth == AUTO
        return KernelOptions(
            self.kernel,
            bandwidths.MEDIAN if one else self.bandwidth,
            self.degree,
            self.offset,
            self.length,
            self.decay,
            self.groups,
        )


def _bandwidth_text(bandwidth: Any) -> Any:
    """Return bandwidths, given as numbers or lists of them, as the command line would have them."""
    if isinstance(bandwidth, Mapping):
        return {group: _bandwidth_text(value) for group, value in bandwidth.items()}
    numbers = [bandwidth] if isinstance(bandwidth, str) or not isinstance(bandwidth, Iterable) else bandwidth
    return ",".join(map(str, numbers))
