"""The last frame of a clip is there, whatever its length, rate and start.

Files keep times in single precision; ``int((last - first) * rate)`` loses the last frame of many.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from supple.engines.engine import ENGINES
from supple.playback.bake_plan import bake_plan
from supple.playback.cycle import once_table
from supple.playback.secondary_motion import curve_plan
from supple.rig.character import Character
from supple.rig.motion.frame_counts import frame_times, whole_steps
from supple.rig.motion.motion import Motion

RATES = (24, 25, 30, 50, 60, 90, 120)
LENGTHS = range(1, 300)
#: Frames before the first: none; one, as in Blender's files; and some.
STARTS = (0, 1, 37)
#: Lengths in seconds of clips that are long, up to an hour.
LONG = (61.0, 599.0, 1800.0, 3599.5, 3600.0)
#: Nothing is asked of it: plans take motions as they are.
NOBODY = Character("nobody", cast("Any", None), cast("Any", None))


def single(frame: int, rate: float) -> float:
    """Seconds of a frame, as files have them."""
    return float(np.float32(frame / rate))


def clip(first: float, last: float) -> Motion:
    return Motion([first, 0.5 * (first + last), last], [[0.0], [1.0], [0.0]], name="clip")


def naive(first: float, last: float, rate: float) -> int:
    return int((last - first) * rate)


def cases(rate: int, start: int) -> list[tuple[int, float, float]]:
    return [(n, single(start, rate), single(start + n, rate)) for n in LENGTHS]


def test_the_naive_formula_loses_many_last_frames():
    """What is tested here goes wrong without `whole_steps`, and not for a few lengths alone."""
    for rate in RATES:
        lost = sum(naive(first, last, rate) < n for n, first, last in cases(rate, 0))
        assert 90 < lost < 150
        assert any(naive(first, last, rate) < n for n, first, last in cases(rate, 1))


@pytest.mark.parametrize("start", STARTS[:2])
@pytest.mark.parametrize("rate", RATES)
def test_a_resampled_motion_has_its_last_frame(rate: int, start: int):
    for n, first, last in cases(rate, start):
        even = clip(first, last).resample(rate)
        assert even.n_frames == n + 1
        assert even.times[-1] == pytest.approx(last, abs=1e-6)
        assert whole_steps(first, last, rate) == n


@pytest.mark.parametrize(
    "engine", [row.name for row in ENGINES.values() if row.moves == "character"]
)
@pytest.mark.parametrize("rate", RATES)
def test_a_bake_has_its_last_frame(rate: int, engine: str):
    for start in STARTS:
        for n, first, last in cases(rate, start):
            plan = bake_plan(NOBODY, clip(first, last), rate=rate, engine=engine)
            steps = whole_steps(plan.start, plan.end, 1 / plan.dt)
            assert steps // plan.every == n
            if n % 23 == 0:  # the table itself: poses at all steps
                table = once_table(plan.motion, plan.dt, None, None)
                assert table.n_steps == steps
                cut = once_table(plan.motion, plan.dt / 4, None, None, multiple=4)
                assert cut.n_steps == 4 * steps


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("rate", RATES)
def test_curves_have_their_last_frame_once(rate: int, start: int):
    for n, first, last in cases(rate, start):
        plan = curve_plan(NOBODY, clip(first, last), rate=rate)
        assert len(plan.times) == n + 1
        assert plan.times[-1] == last
        np.testing.assert_allclose(plan.times, first + np.arange(n + 1) / rate, atol=1e-5)


@pytest.mark.parametrize("rate", RATES)
def test_a_part_that_ends_with_a_clip_has_its_last_frame(rate: int):
    """Ends are given as people and other programs compute them: not rounded as the file's."""
    for n, first, last in cases(rate, 1):
        motion = clip(first, last)
        for start, end in ((first, last), (1 / rate, (1 + n) / rate)):
            part = motion.slice(start, end)
            assert whole_steps(part.times[0], part.times[-1], rate) == n
            if n % 23 == 0:
                assert part.resample(rate).n_frames == n + 1
            plan = bake_plan(NOBODY, motion, rate=rate, start=start, end=end)
            assert whole_steps(plan.start, plan.end, 1 / plan.dt) // plan.every == n
            whole = curve_plan(NOBODY, motion, rate=rate, start=start, end=end)
            assert len(whole.times) == n + 1


@pytest.mark.parametrize("rate", RATES)
def test_a_part_inside_a_clip_has_its_last_frame(rate: int):
    keys = (np.arange(330) / rate).astype(np.float32).astype(np.float64)
    motion = Motion(keys, np.sin(keys)[:, None])
    for n in LENGTHS:
        for first, last in ((1 / rate, (n + 1) / rate), (keys[1], keys[n + 1])):
            part = motion.slice(first, last)
            assert whole_steps(part.times[0], part.times[-1], rate) == n


@pytest.mark.parametrize("rate", RATES)
def test_clips_of_up_to_an_hour_have_their_last_frame(rate: int):
    lost = 0
    for seconds in LONG:
        for start in STARTS:
            for n in range(round(seconds * rate), round(seconds * rate) + 20):
                first, last = single(start, rate), single(start + n, rate)
                motion = clip(first, last)
                for engine in ("pose-space", "full"):
                    plan = bake_plan(NOBODY, motion, rate=rate, engine=engine)
                    assert whole_steps(first, last, 1 / plan.dt) // plan.every == n
                times = frame_times(first, last, rate)
                assert len(times) == len(curve_plan(NOBODY, motion, rate=rate).times) == n + 1
                assert times[-1] == last
                assert np.diff(times[-3:]).min() > 0.5 / rate
                lost += naive(first, last, rate) < n
    assert lost > 50
    assert clip(0.0, last).resample(rate).n_frames == start + n + 1


@pytest.mark.parametrize("rate", [29.97002997, 23.976023976, 12.5, 1000.0])
def test_uneven_rates_have_their_last_frame(rate: float):
    for n in LENGTHS:
        assert clip(0.0, single(n, rate)).resample(rate).n_frames == n + 1
        assert len(frame_times(0.0, single(n, rate), rate)) == n + 1


def test_an_end_between_frames_is_no_frame():
    """Only rounding is forgiven: a clip that ends a hundredth before a frame does not reach it."""
    for n in LENGTHS:
        assert whole_steps(0.0, (n - 0.01) / 30, 30) == n - 1
        times = frame_times(0.0, (n - 0.01) / 30, 30)
        assert len(times) == n + 1
        assert times[-1] == (n - 0.01) / 30
    assert clip(0.0, 0.99).resample(1).n_frames == 1
