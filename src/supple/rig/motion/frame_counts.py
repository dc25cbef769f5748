"""Numbers and times of frames in a span of seconds whose ends a file has rounded.

Files store times in single precision: 1.9 s is 1.89999998 s, and the naive ``int(seconds * rate)``
loses the last frame of many clips. All frames and steps of motions are counted here.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats

#: Relative rounding error of single-precision times, for both ends.
SINGLE = 2.0**-23
#: Tolerance of an end, as a part of a step, without rounding of times.
MISSED = 1e-6
#: Least time between two frames of a motion, in seconds.
SHORTEST = 2e-6
#: Largest rounding error, as a part of a step.
MOST_ROUNDED = 0.5


def rounding_of(first: float, last: float) -> float:
    """Return the seconds by which a span between single-precision times may be wrong."""
    return SINGLE * max(abs(first), abs(last))


def whole_steps(first: float, last: float, rate: float) -> int:
    """Return the number of whole steps from `first` to `last` seconds, at `rate` a second.

    An end that rounding to single precision moved before a step counts as that step.

    Examples
    --------
    >>> import numpy as np
    >>> whole_steps(0.0, float(np.float32(1.9)), 30.0)  # 1.89999998
    57
    """
    return int(min((last - first) * rate + _rounded_steps(first, last, rate), 2.0**60))


def frame_times(first: float, last: float, rate: float) -> Floats:
    """Return the times of frames from `first` on, and `last` as the last of them, (t,).

    If `last` is not a frame it is appended after the last frame; if it is one up to rounding it
    replaces that frame.

    Examples
    --------
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
    """Return the part of a step by which rounding may move the end of a span."""
    return min(MISSED + rounding_of(first, last) * rate, MOST_ROUNDED)
