"""Motions from keyframes: C² curves through keys in seconds and degrees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion
from supple.scenes.modelling.sculpting import ramp

#: Time and value or values of a key.
Key = tuple[float, ArrayLike]


class Timeline:
    """Frames at equal intervals, `rate` per second, and curves on them.

    Examples
    --------
    >>> line = Timeline(2.0, rate=2)
    >>> line.curve([(0, 0.0), (1, 1.0), (2, 0.0)])[:, 0]
    array([0. , 0.5, 1. , 0.5, 0. ])
    """

    def __init__(self, seconds: float, rate: float = 60.0) -> None:
        if not (0 < seconds <= 3600 and 0 < rate <= 1000):
            raise SuppleError(
                f"timeline of {seconds} s at {rate} frames/s; use up to 3600 s and 1000 frames/s"
            )
        self.seconds = float(seconds)
        self.times = np.arange(round(seconds * rate) + 1) / rate

    def curve(self, keys: Sequence[Key]) -> Floats:
        """Return a C² curve (t, c) through the keys, at rest at both ends of the timeline.

        Before and after the keys it is constant, up to the overshoot of the spline.
        """
        moments = [float(time) for time, _ in keys]
        values = [np.atleast_1d(np.asarray(value, float)) for _, value in keys]
        if not moments or not (np.diff(moments) > 0).all() or moments[0] < 0:
            raise SuppleError("a curve needs keys with increasing times of at least 0 s")
        if moments[0] > 0:
            moments, values = [0.0, *moments], [values[0], *values]
        if moments[-1] < self.times[-1]:
            moments, values = [*moments, self.times[-1]], [*values, values[-1]]
        return CubicSpline(moments, np.array(values), bc_type="clamped")(self.times)

    def wave(self, hertz: float, start: float, stop: float, ease: float = 0.4) -> Floats:
        """Return a C² sine (t,) that fades in after `start` and out before `stop`."""
        since, until = (self.times - start) / ease, (stop - self.times) / ease
        rise = ramp(since, 0.0, 1.0) * ramp(until, 0.0, 1.0)
        return rise * np.sin(2 * np.pi * hertz * (self.times - start))

    def roots(
        self,
        places: Sequence[Key] = ((0.0, (0.0, 0.0, 0.0)),),
        headings: Sequence[Key] = ((0.0, 0.0),),
        leans: Sequence[Key] = ((0.0, 0.0),),
    ) -> Floats:
        """Return root transforms (t, 4, 4) from positions in m, and degrees about y and about x."""
        place = self.curve(places)
        heading, lean = (np.radians(self.curve(keys)[:, 0]) for keys in (headings, leans))
        c, s, b, a = np.cos(heading), np.sin(heading), np.cos(lean), np.sin(lean)
        roots = np.tile(np.eye(4), (len(self.times), 1, 1))
        roots[:, 0, :3] = np.stack([c, s * a, s * b], axis=1)
        roots[:, 1, :3] = np.stack([np.zeros_like(c), b, -a], axis=1)
        roots[:, 2, :3] = np.stack([-s, c * a, c * b], axis=1)
        roots[:, :3, 3] = place
        return roots

    def held(self, pose: Floats, name: str, roots: Floats | None = None) -> Motion:
        """Return a motion that holds a pose (s,), with roots (t, 4, 4), by default the identity."""
        poses = np.tile(pose, (len(self.times), 1))
        return Motion(self.times, poses, self.roots() if roots is None else roots, name)
