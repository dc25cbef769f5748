"""Numbers and times of frames between two times that are rounded to single precision.

Files store 1.9 s as 1.89999998 s, so ``int(seconds * rate)`` loses the last frame of many clips.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats

#: Relative rounding error of single-precision times, for both ends.
SINGLE = 2.0**-23
#: Tolerance of an end, as a fraction of a step, without rounding of times.
MISSED = 1e-6
#: Least time between two frames of a motion, in seconds.
SHORTEST = 2e-6
#: Largest rounding error, as a fraction of a step.
MOST_ROUNDED = 0.5


def rounding_of(first: float, last: float) -> float:
    """Return the rounding error, in seconds, of a span between two float32 times."""
    return SINGLE * max(abs(first), abs(last))


def whole_steps(first: float, last: float, rate: float) -> int:
    """Return the number of whole steps from `first` to `last` seconds, at `rate` per second.

    A step that float32 rounding ends just after `last` counts as well.

    >>> whole_steps(0.0, float(np.float32(1.9)), 30.0)  # 1.89999998
    57
    """
    return int(min((last - first) * rate + _rounded_steps(first, last, rate), 2.0**60))


def frame_times(first: float, last: float, rate: float) -> Floats:
    """Return frame times (t,) from `first` to `last`, which is always the last of them.

    If `last` is a frame up to rounding, it replaces that frame; otherwise it is appended.

    >>> frame_times(0.0, 0.25, 10.0)
    array([0.  , 0.1 , 0.2 , 0.25])
    """
    count = whole_steps(first, last, rate)
    times = first + np.arange(count + 1) / rate
    if last - times[-1] > max(_rounded_steps(first, last, rate) / rate, SHORTEST):
        return np.append(times, last)
    times[-1] = last
    return times


def _rounded_steps(first: float, last: float, rate: float) -> float:
    """Return the rounding error of the end of a span, as a fraction of a step."""
    return min(MISSED + rounding_of(first, last) * rate, MOST_ROUNDED)
