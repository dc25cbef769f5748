"""Accuracy of a reduced model: its measured distance from the full simulation, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from supple.checks import shown
from supple.errors import SuppleError, warn
from supple.rig.motion.motion_names import short_name

#: Key of the accuracy in the report of a model.
ACCURACY = "accuracy"
#: Largest figure, and most letters of a name, in a model file.
LARGEST_FIGURE, LONGEST_NAME = 1e6, 200
#: Distance from which a model is called bad: it then moves visibly otherwise.
BAD = 0.35


@dataclass(frozen=True)
class Accuracy:
    """Comparison of a reduced model with the full simulation in a part of one motion.

    Attributes
    ----------
    distance
        RMS difference of the skin of both over time, relative to the RMS displacement of the full
        simulation from the rig. None if the flesh hardly moves.
    amplitude
        RMS displacement of the reduced model from the rig, relative to that of the full
        simulation. None if the flesh hardly moves.
    motion
        Name of the motion.
    start, seconds
        First time of the part, and its duration, in s.
    frames
        Number of compared frames.
    stiffness
        Factor by which the reduced flesh was stiffened, as `supple.bake` does for violent motions.
    worst
        Joint whose skin has the largest share of the squared difference; "" without joints.
    trouble
        Reason why the model could not be compared; else "".
    """

    distance: float | None
    amplitude: float | None
    motion: str
    start: float
    seconds: float
    frames: int
    stiffness: float = 1.0
    worst: str = ""
    trouble: str = ""

    def __post_init__(self) -> None:
        for name in ("motion", "worst", "trouble"):
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > LONGEST_NAME:
                raise SuppleError(f"accuracy: {name} must be a name of at most {LONGEST_NAME}")
        if (self.distance is None) != (self.amplitude is None):
            raise SuppleError("accuracy: distance and amplitude must both be numbers, or both null")
        for name in ("distance", "amplitude", "start", "seconds", "frames", "stiffness"):
            value = getattr(self, name)
            if value is None and name in ("distance", "amplitude"):
                continue
            least = -LARGEST_FIGURE if name == "start" else 0
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not least <= value <= LARGEST_FIGURE:
                raise SuppleError(f"accuracy: {name} is {shown(value)}; use {least:g} to 1e6")

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self | None:
        """Return the checked accuracy in the report of a model; None if the report has none."""
        values = report.get(ACCURACY)
        if values is None:
            return None
        names = cls.__dataclass_fields__
        if not isinstance(values, Mapping) or not set(values) <= set(names):
            raise SuppleError(f"accuracy of a model is {shown(values)}; use {', '.join(names)}")
        try:
            return cls(**values)
        except TypeError:  # a field is missing
            raise SuppleError(f"accuracy of a model must have {', '.join(names)}") from None

    def figures(self) -> dict[str, Any]:
        """Return the fields by name, for the report of a model."""
        return asdict(self)

    @property
    def bad(self) -> bool:
        """Whether the model is at least `BAD` from the full simulation."""
        return self.distance is not None and self.distance >= BAD

    def words(self) -> str:
        """Return the distance in words, with the part of the motion and the worst joint.

        >>> Accuracy(0.14, 0.97, "Run", 0.2, 0.5, 45, worst="Tail3").words()
        'within 14 % of the full simulation (Run, 0.2 to 0.7 s; worst at Tail3)'
        """
        if self.trouble:
            return f"not compared with the full simulation: {_one_line(self.trouble)}"
        part = f"{_one_line(short_name(self.motion))}, {self.start:.3g} to "
        part += f"{self.start + self.seconds:.3g} s"
        if self.stiffness != 1:
            part += f", {self.stiffness:g} times as stiff"
        if self.distance is not None and self.worst:
            part += f"; worst at {_one_line(self.worst)}"
        return f"{distance_words(self.distance)} ({part})"


def warn_if_bad(name: str, report: Mapping[str, Any], flesh: str = "") -> None:
    """Warn if the model with this name and report is far from the full simulation.

    `flesh` describes the flesh of the comparison if it differs from the flesh that is played.
    """
    accuracy = Accuracy.of(report)
    if accuracy is None or not accuracy.bad:
        return
    place = f", mostly at {_one_line(accuracy.worst)}" if accuracy.worst else ""
    text = f'{distance_words(accuracy.distance)}{place}, in "{_one_line(accuracy.motion)}"'
    remedy = "use final quality, or firmer flesh"
    if accuracy.stiffness > 1:
        text += f", for which it is made {accuracy.stiffness:g} times as stiff"
    warn(f"{name}: the reduced model{flesh} is {text}; {remedy}")


def distance_words(distance: float | None) -> str:
    """Return the distance of a model from the full simulation in words.

    >>> distance_words(0.143), distance_words(0.41), distance_words(None)
    ('within 14 % of the full simulation', '41 % from the full simulation', 'hardly moves')
    """
    if distance is None:
        return "hardly moves"
    if distance >= BAD:
        return f"{100 * distance:.0f} % from the full simulation"
    return f"within {max(100 * distance, 1):.0f} % of the full simulation"


def accuracy_words(report: Mapping[str, Any]) -> str:
    """Return the accuracy in the report of a model in words; "" if it was not measured."""
    accuracy = Accuracy.of(report)
    return "" if accuracy is None else accuracy.words()


def _one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)
