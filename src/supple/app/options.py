"""Options of the commands `supple build`, `bake`, `curves` and `view`.

Each record adds options of a command to the options in `supple.engines.options`, which Python's
functions share. A field's docstring is the help text of the option.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from supple.engines.options import (
    BakePlayOptions,
    CurvePlayOptions,
    EngineName,
    Flag,
    FleshOptions,
    Numbers,
    PlayOptions,
    SourceOptions,
    Words,
    without_none,
)
from supple.errors import SuppleError

#: Options of `supple build` that choose the method and replace its parts.
RECIPE_OPTIONS = (
    *("recipe", "interpolation", "reach", "independent", "linear_forces", "selection"),
    *("train_between", "inertial_fit", "train_root", "region_threshold", "region_exponent"),
)
_RECIPE = Parameter(group="Method, for comparisons")
#: Materials of the flesh with fibres, and all of them; bases of pose-space and of soft-skeleton.
ANISOTROPIC = ("orthotropic", "saturating")
KINDS = ("stvk", "neo-hookean", "yeoh", "corotational", "stvk-volume", *ANISOTROPIC)
BASES = ("shaken", "modes", "handles", "paper", "interior", "modal", "responses")
#: Suffixes of motion files of body models.
MOTIONS = (".npz", ".pkl", ".smpl")


@dataclass(frozen=True)
class CommandOptions(FleshOptions, SourceOptions):
    """Options of commands that read a character and build a model of its flesh."""

    def reading(self) -> dict[str, Any]:
        """Return the options of `supple.load` for a body model or an armature."""
        return body_options(self.motion, self.betas, self.armature)

    def motion_name(self) -> str | None:
        """Return the name of the motion; for a motion file, the stem of its name."""
        is_file = self.motion is not None and is_motion_file(self.motion)
        return Path(str(self.motion)).stem if is_file else self.motion

    def flesh_words(self) -> dict[str, Any]:
        """Return the given options of the flesh; a file that `free` names is not read."""
        modes: Any = self.modes  # a list for build
        if isinstance(modes, list):
            if len(modes) == 0:
                raise SuppleError("--modes needs one or more numbers, such as --modes 100")
            modes = modes[0] if len(modes) == 1 else modes
        options: dict[str, Any] = {"young": self.young, "poisson": self.poisson, "free": self.free}
        options["bounds"] = None if self.bounds is None else bounds_by_name(self.bounds)
        sizes = {"poses": chosen_poses(self.poses), "modes": modes, "tets": self.tets}
        return without_none(options | sizes)


@dataclass(frozen=True)
class SoftBodyOptions(CommandOptions):
    """Options of commands that build a soft skeleton."""

    handles: str | None = None
    """Handles of soft-skeleton: their number, 90 by default; or chosen by hand: vertices of the
    skin with commas, such as 10,20,30, or a .json file, a list of vertices or of points [x,y,z] at
    rest, or {"vertices": […], "mirror": false}. Handles chosen on one side of a body are repeated
    on the other, unless the file says otherwise."""
    denser: Words = None
    """Relative density of handles by bone, for soft-skeleton: 'hand*=3' for three times as many."""
    skeleton: Path | None = None
    """Meshes of bones (.npz) around which soft-skeleton has its flesh, in place of bone as deep as
    in the anatomy."""
    material: Literal[*KINDS] | None = None  # type: ignore[valid-type]
    """Material of the flesh; by default yeoh, which stiffens under strain, StVK without an anatomy,
    or the scene's. Orthotropic and saturating, for soft-skeleton, are stiffer along the bones;
    saturating stiffens up to a bound."""

    def flesh_words(self) -> dict[str, Any]:
        """Return the given options of the flesh; files are not read."""
        return super().flesh_words() | without_none({"kind": self.material})

    def soft_words(self) -> dict[str, Any]:
        """Return the given words for handles, their density, and the file of bones."""
        words = {"handles": self.handles, "denser": self.denser, "skeleton": self.skeleton}
        return without_none(words)


@dataclass(frozen=True)
class ViewOptions(SoftBodyOptions):
    """Options of `supple view` about the character."""

    damping: float = 1.0
    """Initial factor on the damping of the flesh, as for bake."""
    solver: str | None = None
    """Solver of rig-space, as for curves."""
    deferral: float | None = None
    """Bound of kept Jacobians of rig-space, as for curves."""
    model: Path | None = None
    """A model file of this character, in place of building a model."""


@dataclass(frozen=True)
class BakeOptions(SoftBodyOptions, BakePlayOptions):
    """Options of `supple bake`; None selects a default."""

    motion: str | None = None
    """Motion by name: the full name, the part after its last |, or its last words, in any case; a
    pattern such as 'Idle*' bakes all that match; wiggle shakes and tilts the character. By default
    the liveliest. For a body model: a motion file of AMASS or of hand poses (.npz)."""
    all: Flag = False
    """Bake all motions with one model: into one file where the format holds several (glTF, USD),
    otherwise one file for each."""
    model: Path | None = None
    """A model file of this character, in place of building a model."""
    model_motion: str | None = None
    """Motion file of a body model that the model is built for, so that clips in other files share
    one model; by default the motion that is baked."""
    error: float | None = None
    """Largest distance of the shapes from the simulation, relative to the size; by default
    0.002."""
    normals: Flag = False
    """Write shapes of normals, too."""
    points: Literal["blend-shapes", "cache"] | None = None
    """USD only: "cache" writes points at every frame in place of blend shapes."""
    drop_springs: Flag = False
    """VRM only: remove spring bones that would move joints under the baked flesh."""
    with_obstacles: Flag = False
    """glTF and USD: write the obstacles into the file, too; moving ones with their motion."""
    report: Path | None = None
    """.html file that plays the result in a browser, next to the rig alone."""
    video: Path | None = None
    """.mp4, .webm, .webp or .gif of the result, next to the rig alone; of several motions, the
    liveliest. .mp4 and .webm need the extra video."""
    video_size: str = "960x540"
    """Width and height of the video in pixels."""
    video_show: Literal["both", "flesh"] = "both"
    """"both" shows the rig on the left and the flesh on the right, "flesh" the flesh alone."""
    readings: Path | None = None
    """.csv file of contact forces at each frame, with soft-skeleton: force on the body, on each of
    its parts and by each obstacle, torque of each joint, force and pressure of each contact."""
    clay: Flag = False
    """Show the report in clay initially, instead of in the character's colours."""
    remove: Flag = False
    """Remove baked flesh: restore the original file to the byte; in place without -o."""

    def __post_init__(self) -> None:
        """Refuse contradictory options."""
        if self.all and self.motion is not None:
            raise SuppleError(f'--all bakes every motion; leave it out for "{self.motion}" alone')
        if self.all and (self.start is not None or self.end is not None):
            raise SuppleError("--from and --to are seconds of one motion; name it with --motion")

    def live(self) -> BakeOptions:
        """Return the same options in live quality."""
        return replace(self, quality="live")

    def saving(self) -> dict[str, Any]:
        """Return the options of `supple.save`."""
        options: dict[str, Any] = {"error": self.error, "points": self.points}
        options |= {"normals": self.normals or None}
        options |= {"with_obstacles": self.with_obstacles or None}
        return without_none(options | {"drop_springs": self.drop_springs or None})


@dataclass(frozen=True)
class BuildOptions(SoftBodyOptions):
    """Options of `supple build`; None selects a default."""

    motion: str | None = None
    """For a body model: a motion file of AMASS or of hand poses (.npz)."""
    modes: Numbers = None  # type: ignore[assignment]
    """Number of modes in all, or for each region."""
    basis: Literal[*BASES] | None = None  # type: ignore[valid-type]
    """Basis of pose-space: "shaken", the default for files, one basis from simulations of the
    shaken body; "modes", the softest modes of each region. Basis of soft-skeleton: "handles", the
    default; "paper", linearly precise; "interior", handles inside as well; "modal"; "responses"."""
    regions: Literal["auto", "none"] | None = None
    """Regions of a basis of modes: "auto" follows the bones; "none" is one for the whole body."""
    stiffness_at: Words = None
    """Stiffness factors at poses, for muscles that stiffen: POSE=MAP with a frame of a motion or a
    pose of the scene, and a map as for --stiffness: Run:12=color:COLOR_1 flexed=biceps.json."""
    contacts: Literal["two-sided", "one-sided", "fixed", "none"] | None = None
    """Constraints between parts that touch at a pose."""
    ground: float | None = None
    """Height in metres of a floor that poses may stand on."""
    elastic: int | None = None
    """Number of cubature tets that a step evaluates; by default three per mode."""
    inertial: int | None = None
    """Number of cubature vertices that a step evaluates; by default three for two modes."""
    recipe: Annotated[Literal["default", "printed"] | None, _RECIPE] = None
    """Method of pose-space: "printed" is that of Xu and Barbič 2016 as they print it. The options
    of this group each replace one part of it."""
    interpolation: Annotated[Literal["frames", "world"] | None, _RECIPE] = None
    """Coordinates in which bases are blended; printed: world."""
    reach: Annotated[float | None, _RECIPE] = None
    """Displacement of the softest mode, as a fraction of the size, that weighs derivatives;
    printed: 0, weights that depend on units, and no static responses."""
    independent: Annotated[bool | None, _RECIPE] = None
    """Make the bases of regions independent of each other; printed: no."""
    linear_forces: Annotated[Literal["exact", "cubature"] | None, _RECIPE] = None
    """Linear part of elastic forces; printed: that of the cubature."""
    selection: Annotated[Literal["exchange", "thresholding"] | None, _RECIPE] = None
    """Choice of cubature tets and vertices; printed: hard thresholding pursuit."""
    train_between: Annotated[bool | None, _RECIPE] = None
    """Train cubature halfway between poses, too; printed: no."""
    inertial_fit: Annotated[Literal["corrected", "weights", "one set"] | None, _RECIPE] = None
    """Fit of inertial cubature; printed: one set of weights for all poses."""
    train_root: Annotated[bool | None, _RECIPE] = None
    """Train inertial cubature on accelerations of the whole body, too."""
    region_threshold: Annotated[float | None, _RECIPE] = None
    """Weight below which a vertex is not in a region; printed: 0.1."""
    region_exponent: Annotated[float | None, _RECIPE] = None
    """Exponent of the weights of regions; printed: 0.5."""
    most_poses: int | None = None
    """Largest number of poses with --poses auto."""
    fit: float | None = None
    """Weight of elasticity when tets are fitted to a pose; a larger weight avoids inversions."""
    seed: int | None = None
    """Seed of random samples, by default 0; the same seed gives the same bytes."""
    sheet: Path | None = None
    """PNG file to draw the model into: regions, softest modes, cubature, alignment of poses."""
    processes: int | None = None
    """Number of processes to compute poses in, in place of threads."""

    def building(self) -> dict[str, Any]:
        """Return the builder's options that are given, except `FleshOptions`."""
        options = {
            "basis": self.basis,
            "regions": self.regions,
            "contacts": self.contacts,
            "elastic_cubature": self.elastic,
            "inertial_cubature": self.inertial,
            **{name: getattr(self, name) for name in RECIPE_OPTIONS},
            "most_poses": self.most_poses,
            "gamma": self.fit,
            "seed": self.seed,
        }
        none = {name: None for name in ("regions", "contacts") if options[name] == "none"}
        return without_none(options) | none


@dataclass(frozen=True)
class CurveOptions(CommandOptions, CurvePlayOptions):
    """Options of `supple curves`; None selects a default."""

    engine: EngineName = "rig-space"
    span: Annotated[tuple[float, float] | None, Parameter(name="--range")] = None
    """First and last second of the motion, as --from and --to; curves fade in and out there."""
    rate: Annotated[float | None, Parameter(name=["--fps", "--rate"])] = None
    """Frames per second; by default the motion's. The simulation does not depend on it."""
    keys: Literal["every", "linear", "spline"] | None = None
    """Keys: at every frame, or as few as keep the skin within --error: spline, the default where
    the format has splines (glTF, JSON, .blend and .fbx), or linear."""
    error: float | None = None
    """Largest distance that fewer keys may move the skin, relative to the size; by default 0.002,
    or a tenth of the largest motion that is added, if that is less."""
    additive: Flag = False
    """Leave the clip unchanged and add a clip with the simulated motion alone, to layer over it."""
    damping: Words = None
    """Factor on the damping of the flesh: with 2 it comes to rest sooner, with 0.5 later; or
    factors by name of control, such as 'tail*=2'."""
    follow: Words = None
    """Strength of springs that pull controls to their keys: a number, 1 leaves about a third of
    the motion, or numbers by name, such as 'tail*=0.5' belly=0."""
    firmness: Words = None
    """Factor on the stiffness of controls, or factors by name; with 4 they swing twice as fast."""
    tolerance: float | None = None
    """Largest error of time stepping per second of motion, relative to the size, such as 0.01:
    steps become as short as needed; by default they are 1/90 s."""
    model: Path | None = None
    """A model file of this character with free parameters, in place of building a model."""
    model_motion: str | None = None
    """Motion file of a body model for which the model is built, as for bake."""
    drop_springs: Flag = False
    """VRM only: remove spring bones that would move the same joints."""
    plot: Path | None = None
    """.png file with a chart of each curve and its keys."""
    page: Path | None = None
    """.html file that plays the rig alone, with curves, and with pose-space flesh."""
    remove: Flag = False
    """Remove the curves: restore the original file to the byte; in place without -o."""

    def __post_init__(self) -> None:
        """Refuse contradictory options."""
        if self.span is not None and (self.start, self.end) != (None, None):
            raise SuppleError("--range sets --from and --to; use one or the other")

    def flesh_damping(self) -> float:
        """Return the factor on the damping of all flesh: 1 with factors by name."""
        damping = 1.0 if self.damping is None else by_parameter("--damping", self.damping)
        return damping if isinstance(damping, float) else 1.0

    def playing(self) -> dict[str, Any]:
        """Return the options of `curve_plan`."""
        start, end = (self.start, self.end) if self.span is None else self.span
        span = {"rate": self.rate, "start": start, "end": end}
        return {**span, "blend": self.blend, "loop": self.loop}

    def saving(self) -> dict[str, Any]:
        """Return the options of `supple.save`."""
        options = {"keys": self.keys, "error": self.error, "additive": self.additive or None}
        return without_none(options | {"drop_springs": self.drop_springs or None})


@dataclass(frozen=True)
class FitOptions(CommandOptions, PlayOptions):
    """Options of `supple fit`; None selects a default."""

    rate: Annotated[float | None, Parameter(name=["--fps", "--rate"])] = None
    """Frames per second of the target; by default its own, and 30 for .pc2, which has none."""
    regions: Words = None
    """Parts with their own stiffness and damping, in addition to all other flesh: joints with
    wildcards, roles of the anatomy, belly, back, meshes, materials or painted maps, such as belly
    'Tail*'. By default the roles that move most in the target."""
    plot: Path | None = None
    """.png file with the curves of the target and of the fit, by region."""


def is_motion_file(word: str) -> bool:
    """Return whether a word names a motion file of a body model."""
    return Path(word).suffix.lower() in MOTIONS


def body_options(
    motion: str | None, betas: str | None, armature: str | None = None
) -> dict[str, Any]:
    """Return options of `supple.load` for a body model or for one armature of several.

    >>> body_options("walk.npz", "1,-2")
    {'motion': 'walk.npz', 'betas': [1.0, -2.0]}
    """
    options: dict[str, Any] = {}
    if motion is not None and is_motion_file(motion):
        options["motion"] = motion
    if armature is not None:
        options["armature"] = armature
    if betas is None:
        return options
    if betas.strip() == "motion":
        return options | {"betas": "motion"}
    try:
        return options | {"betas": [float(word) for word in betas.replace(",", " ").split()]}
    except ValueError:
        raise SuppleError(f"--betas {betas[:40]}: use numbers with commas, or motion") from None


def by_parameter(option: str, words: Sequence[str]) -> float | dict[str, float]:
    """Return a number for all parameters, or numbers by name, from words such as ``tail*=0.5``."""
    numbers: dict[str, float] = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            raise SuppleError(f"{option} {word}: use a number, or NAME=NUMBER") from None
    if not numbers or ("" in numbers and len(words) > 1):
        raise SuppleError(f"{option} needs one number for all, or NAME=NUMBER for some")
    return numbers.get("", numbers)


def bounds_by_name(text: str) -> dict[str, tuple[float, float]]:
    """Return bounds by name, ``*`` for all, from a text such as ``belly*=-1,1; cheek*=0,1``.

    >>> bounds_by_name("-1,1")
    {'*': (-1.0, 1.0)}
    """
    bounds: dict[str, tuple[float, float]] = {}
    for part in filter(str.strip, text.split(";")):
        name, _, pair = part.rpartition("=")
        try:
            low, high = (float(number) for number in pair.split(","))
        except ValueError:
            low, high = math.nan, math.nan
        if not low <= high:
            raise SuppleError(f"--bounds {part.strip()}: use LOWER,UPPER or NAME=LOWER,UPPER")
        bounds[name.strip() or "*"] = low, high
    if not bounds:
        raise SuppleError("--bounds needs LOWER,UPPER for all, or NAME=LOWER,UPPER for some")
    return bounds


def chosen_poses(words: Sequence[str] | None) -> int | str | list[str] | None:
    """Return the builders' option `poses`: a number, "auto" or names of frames; None for none."""
    if words is None:
        return None
    if len(words) == 0:
        raise SuppleError("--poses needs a number, auto, or frames such as Run:12")
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        return int(words[0])
    return "auto" if list(words) == ["auto"] else list(words)
