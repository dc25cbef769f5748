"""Fitting flesh to a target: `supple.fit`, and the anatomy file that keeps the result."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.flesh_presets import FLESH_PRESETS
from supple.anatomy.named_parts import ALL, SkinPart, short_name
from supple.anatomy.region_entries import (
    FEEL_LIMITS,
    FELT_REGIONS,
    RegionEntry,
    entries_for,
    read_feel,
    write_entries,
)
from supple.arrays import Floats, Singles
from supple.engines.common.option_record import takes_options
from supple.engines.engine import FIRST_ENGINE, engine_named
from supple.engines.options import FleshOptions, PlayOptions
from supple.errors import SuppleError, SuppleWarning, warn
from supple.linalg.blas import single_threaded
from supple.playback.bake_model import ANATOMY
from supple.playback.bake_plan import BakePlan, bake_plan
from supple.playback.character_sources import CharacterSource, source_of
from supple.playback.fit.regions import fitted_parts
from supple.playback.fit.search import Comparison, FitProblem, least_squares_search
from supple.playback.fit.target import FitTarget, GivenTarget, fit_target
from supple.playback.live_run import LiveRun
from supple.playback.progress_bar import ShownProgress, reported_progress
from supple.playback.request import BakeRequest
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Longest part of a clip in s that is fitted, and the time before it in which flesh starts.
LONGEST, LEAD = 3.0, 0.7
#: Distance from the target, relative to its motion, from which a fit explains nothing.
USELESS = 0.97
#: Swing of a region relative to that of the liveliest from which its factors are meaningful.
RESTING = 0.01


@dataclass(frozen=True)
class FittedRegion:
    """Result of a fit for one part of the skin.

    Attributes
    ----------
    region
        Name, "all" for the skin without a region of its own.
    stiffness, damping
        Factors on those of the character's usual flesh.
    distance, before
        Distance from the target relative to the target's displacements from the rig, root mean
        square, of the fitted and of the initial flesh. The rig alone has 1.
    swing
        Largest displacement of the target from the rig, in m.
    """

    region: str
    stiffness: float
    damping: float
    distance: float
    before: float
    swing: float


@dataclass(frozen=True)
class FitCurve:
    """Displacement of one vertex of a region along the direction in which the target moves most.

    `times` (t,) are s of the clip; `target`, `fitted` and `before` (t,) are in m.
    """

    region: str
    vertex: int
    times: Floats
    target: Floats
    fitted: Floats
    before: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Stiffness and damping by region with which flesh moves as a target does.

    Attributes
    ----------
    character, motion
        Character, and name of the motion.
    regions
        Results by region.
    feel
        The result as `supple.anatomy.region_entries.read_feel` reads it from a file.
    entries
        Regions of the anatomy, by joint.
    curves
        Curves of target, fitted and initial flesh, by region.
    report
        Figures, as plain values for JSON.
    """

    character: Character
    motion: str
    regions: tuple[FittedRegion, ...]
    feel: Mapping[str, Any]
    entries: Mapping[str, RegionEntry]
    curves: tuple[FitCurve, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f'Fit("{self.character.name}", "{self.motion}", {self.distance:.0%} from the target)'

    @property
    def distance(self) -> float:
        """Root mean square of the distances of the regions, by their squared displacements."""
        return float(self.report["distance"])

    def save(self, path: str | Path) -> None:
        """Write an anatomy file, which `supple.bake` takes as `anatomy`."""
        write_entries(path, self.character.name, self.entries, self.feel)


@takes_options(PlayOptions, FleshOptions, anatomy=ANATOMY)
def fit(
    character: Character | str | Path,
    target: GivenTarget,
    motion: Motion | str | None = None,
    *,
    regions: Sequence[str] | str | None = None,
    metres_per_unit: float | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    **options: Any,
) -> Fit:
    """Find stiffness and damping by region from a motion of the same skin.

    Runs of the reduced model are compared with the target, by displacements from the rig. The
    accuracy of the reduced model limits how near a run can come to the target.

    Parameters
    ----------
    character
        Character of `supple.load`, or the path of a file.
    target
        Motion of the character's skin: a baked file (``.glb``, ``.usd``, …), a point cache
        (``.pc2``, ``.mdd``, ``.npz``, ``.abc``), a `BakedMotion`, or positions (t, n̄, 3) in m. Its
        vertices are those of ``character.surface``, or of the character's file, in their order. It
        may be in centimetres or millimetres, and +Z up.
    motion
        Motion of the rig in the target; by default the liveliest.
    regions
        Names of parts that have their own stiffness and damping: joints with wildcards, roles of
        the anatomy such as ``"tail"``, ``"belly"`` or ``"back"``, meshes, materials or painted
        maps. All other flesh is fitted, too. By default the roles that move most in the target.
    metres_per_unit
        Length of the unit of a target that is a character's file, as for `supple.load`.
    progress, keep
        As for `supple.bake`.
    **options
        Options of `PlayOptions` and `FleshOptions`, as for `supple.bake`: ``rate`` are the frames
        per second of targets without times; ``start`` and ``end`` select the part of the motion
        that the target has; ``loop`` is for a target that repeats; ``flesh``, ``stiffness`` and an
        ``anatomy`` file are the start of the search. A bake with the result needs the same
        ``tets``, ``modes``, ``poses``, ``young``, ``poisson`` and ``stiffness``.

    Returns
    -------
    Fit
        Factors and distances by region; ``fit.save("rat.anatomy.json")`` writes them.

    Raises
    ------
    SuppleError
        If the target is not a motion of this skin by this rig, or the best run is far from it.

    Warns
    -----
    SuppleWarning
        If the target is shorter than the motion, a factor ends at a limit of the search, or a
        region hardly moves in the target.
    """
    source = source_of(character)
    return fitted(
        source, target, motion, regions, progress, keep, metres_per_unit=metres_per_unit, **options
    )


def fitted(
    source: CharacterSource,
    target: GivenTarget,
    motion: Motion | str | None,
    regions: Sequence[str] | str | None,
    progress: ShownProgress,
    keep: bool | None,
    *,
    metres_per_unit: float | None = None,
    **options: Any,
) -> Fit:
    """Fit flesh to a target; see `fit`."""
    began = perf_counter()
    character = source.character
    row = engine_named(options.pop("engine", None) or FIRST_ENGINE, "character")
    if not (row.feels_at_run_time and row.damps_at_run_time):
        raise SuppleError(f"{row.name} has no stiffness and damping by region; fit with pose-space")
    if source.model is not None:
        raise SuppleError("a fit needs the character's file, not a model")
    start = _Start.of(character, options)
    live_options = options | {"quality": "live"}
    request = BakeRequest.of("fit", source, None, row.name, None, keep, live_options)
    playing = request.playing
    plan = bake_plan(character, motion, **playing, engine=row.name)
    matched = fit_target(
        target, character, plan.motion, (plan.start, plan.end), playing["rate"], metres_per_unit
    )
    parts = fitted_parts(character, matched, regions)
    plan, begin = _part(plan, matched, row.name)
    ready, stepping = request.model_and_options(row, progress)
    with (
        warnings.catch_warnings(),
        reported_progress(progress) as report_progress,
        single_threaded(),
    ):
        warnings.simplefilter("ignore", SuppleWarning)
        run = LiveRun(character, ready.model, plan, stepping)
        comparison = Comparison.of(parts, run, matched, begin)
        problem = FitProblem(run, comparison, ready.model, stepping["feel"], report_progress)
        x = _rounded(least_squares_search(problem, report_progress))
        before, after = problem.offsets(np.zeros(len(x))), problem.offsets(x)
    result = Fit(
        character,
        plan.motion.name,
        _rows(comparison, x, before, after),
        start.feel(parts, x),
        start.entries,
        tuple(_curves(comparison, run.times, before, after)),
    )
    distance = _overall(comparison, after)
    if not distance <= USELESS:
        raise SuppleError(
            f"{matched.name}: the best fit is {100 * distance:.0f} % of the motion away from the "
            f'target, which may be another motion or another part of "{plan.motion.name}"'
        )
    result.report.update(ready.figures())
    result.report.update(
        name=character.name,
        motion=plan.motion.name,
        vertices=len(character.surface.vertices),
        target=matched.name,
        rate=round(1 / (plan.dt * plan.every), 4),
        frames=int(comparison.frames.sum()),
        begin=round(float(begin), 4),
        end=round(plan.end, 4),
        distance=float(f"{distance:.4g}"),
        before=float(f"{_overall(comparison, before):.4g}"),
        regions=[_plain(each) for each in result.regions],
        written=dict(result.feel),
        runs=problem.runs,
        **({"read_as": matched.read_as} if matched.read_as else {}),
        fit_s=round(perf_counter() - began, 3),
    )
    _warn_of_limits(result, problem.limits, x)
    return result


def _plain(row: FittedRegion) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str) else float(f"{value:.4g}")
        for name, value in vars(row).items()
    }


def _warn_of_limits(result: Fit, limits: Floats, x: Floats) -> None:
    """Warn of factors at their limits, and of regions that nearly rest in the target."""
    at_limit = np.abs(x) > 0.98 * limits
    count = len(result.regions)
    for k, row in enumerate(result.regions):
        what = [name for name, j in (("stiffness", k), ("damping", count + k)) if at_limit[j]]
        if what:
            warn(
                f"{short_name(row.region)}: {' and '.join(what)} ended at the limit of the search; "
                "look at the curves before you use them"
            )
        swing = row.swing / max(each.swing for each in result.regions)
        if swing < RESTING:
            warn(
                f"{short_name(row.region)}: moves by {100 * swing:.2g} % of the liveliest region's "
                "swing in the target; its factors mean little"
            )


# Where the search begins ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Start:
    """Initial flesh: a preset, the anatomy's regions, and factors by region from a file."""

    flesh: str
    entries: Mapping[str, RegionEntry]
    given: Mapping[str, Any]

    @classmethod
    def of(cls, character: Character, options: dict[str, Any]) -> _Start:
        """Take the initial flesh from options; those for all regions as a mapping."""
        anatomy, swing = options.get("anatomy", ANATOMY), options.pop("swing", None)
        given: Mapping[str, Any] = {}
        if isinstance(anatomy, str | Path) and str(anatomy).endswith(".json"):
            given, entries = read_feel(anatomy), entries_for(character, anatomy)
            swing = swing or given.get("swing")
        elif anatomy is None:
            raise SuppleError("a fit writes an anatomy file; leave out anatomy none")
        else:
            regions = anatomy_of(character) if anatomy == ANATOMY else anatomy
            entries = dict(regions if isinstance(regions, Mapping) else regions.given)
            options["anatomy"] = entries
        if swing:
            raise SuppleError("a fit finds the stiffness; leave out the swing")
        flesh = options.get("flesh", "normal")
        if not isinstance(flesh, str):
            raise SuppleError(f"a fit begins with a preset of flesh: {', '.join(FLESH_PRESETS)}")
        return cls(given.get("flesh", flesh) if flesh == "normal" else flesh, entries, given)

    def feel(self, parts: Sequence[SkinPart], x: Floats) -> dict[str, Any]:
        """Return the feel of a file with logarithms of factors (2k,) of the parts."""
        count = len(parts)
        feel: dict[str, Any] = {"flesh": self.flesh}
        regions = {name: dict(each) for name, each in self.given.get(FELT_REGIONS, {}).items()}
        for k, part in enumerate(parts):
            is_all_flesh = part.weights is None
            old = self.given if is_all_flesh else regions.get(part.region, {})
            new = feel if is_all_flesh else regions.setdefault(part.region, {})
            factors = np.exp(x[[k, count + k]]).tolist()
            for (name, limits), factor in zip(FEEL_LIMITS.items(), factors, strict=True):
                value = float(np.clip(old.get(name, 1.0) * factor, *limits))
                new[name] = float(f"{value:.6g}")
        return feel | {FELT_REGIONS: regions}


def _part(plan: BakePlan, target: FitTarget, engine: str) -> tuple[BakePlan, float]:
    """Return the plan of the target's frames, and the time in s from which they are compared.

    Only the liveliest `LONGEST` seconds of a long target are fitted; the simulation starts `LEAD`
    seconds earlier.
    """
    times = target.times
    first, last = 0, len(times) - 1
    count = round(LONGEST * target.rate)
    if not plan.loop and last > count:
        squares = np.einsum("tni,tni->t", target.offsets, target.offsets, dtype=np.float64)
        first = int(np.argmax(np.convolve(squares, np.ones(count + 1), "valid")))
        last = first + count
    start = max(first - round(LEAD * target.rate), 0)
    span: dict[str, Any] = {
        "start": float(times[start]),
        "end": float(times[last]),
        "rate": target.rate,
    }
    if plan.loop:
        span["rate"] = plan.rate
    return replace(plan, **span).stepped_by(engine), float(times[first])


def _rounded(x: Floats) -> Floats:
    """Return logarithms of factors of four digits."""
    return np.log([float(f"{factor:.4g}") for factor in np.exp(x)])


# Results ----------------------------------------------------------------------------------------


def _rows(
    comparison: Comparison, x: Floats, before: Singles | None, after: Singles | None
) -> tuple[FittedRegion, ...]:
    """Return the results by region; factors of a region include those of all flesh."""
    parts, frames = comparison.parts, comparison.frames
    factors = np.exp(x).reshape(2, len(parts))
    rows = []
    for k, part in enumerate(parts):
        stiffness, damping = (
            factors[:, k] if part.weights is None else factors[:, k] * factors[:, 0]
        )
        away = np.linalg.norm(comparison.target[frames][:, part.mask], axis=2)
        distances = comparison.distance(part, after), comparison.distance(part, before)
        swing = float(away.max(initial=0.0))
        rows.append(FittedRegion(part.region, float(stiffness), float(damping), *distances, swing))
    return tuple(rows)


def _overall(comparison: Comparison, offsets: Singles | None) -> float:
    """Return the distance of all skin from the target, relative to the target's displacements."""
    everything = SkinPart(ALL, np.ones(comparison.target.shape[1], bool), None)
    return comparison.distance(everything, offsets)


def _curves(
    comparison: Comparison, times: Floats, before: Singles | None, after: Singles | None
) -> list[FitCurve]:
    """Return curves of the vertex of each part that moves most in the target."""
    curves = []
    for part in comparison.parts:
        target = comparison.target[comparison.frames]
        squares = np.einsum("tni,tni->n", target, target, dtype=np.float64)
        vertex = int(np.argmax(np.where(part.mask, squares, -1.0)))
        direction = np.linalg.svd(target[:, vertex].astype(np.float64))[2][0]
        shown = [
            np.full(len(target), np.nan)
            if each is None
            else each[comparison.frames, vertex].astype(np.float64) @ direction
            for each in (comparison.target, after, before)
        ]
        curves.append(FitCurve(part.region, vertex, times[comparison.frames], *shown))
    return curves
