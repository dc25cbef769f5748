"""Options of `supple bake` and `supple build`: the command line fills them, and passes them on.

A field's text is the option's help; cyclopts makes ``--most-poses`` of ``most_poses``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from supple.app.body_options import ArmatureName, BetaWords
from supple.engines.engine import ENGINES, FIRST_ENGINE
from supple.errors import SuppleError, warn

Flag = Annotated[bool, Parameter(negative="")]
Words = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
FleshName = Literal["firm", "normal", "soft", "jelly"]
#: Word for an anatomy; None for `supple.playback.bake_model.ANATOMY`.
AnatomyName = Annotated[
    str | None,
    Parameter(
        help="What is bone, flesh, hard and apart: auto, found from skin, joints and names, by"
        " default; none, flesh all around the bones; or a file, NAME.anatomy.json, as info"
        " --anatomy and view write it."
    ),
]


def _engines() -> str:
    rows = (row for row in ENGINES.values() if row.moves == "character")
    listed = "; ".join(f"{row.name} – {row.about}" for row in rows)
    return f"Engine that moves the flesh: {listed}."


#: Unit of lengths in a file, as `supple.formats.length_units.metres_in` reads it.
UnitName = Annotated[
    str | None,
    Parameter(
        help="Unit of the file's lengths: m, cm, mm, in, ft, or how many metres one is; by default"
        " what the file says."
    ),
]
#: Name of an engine of characters; a name that is none is refused with the nearest.
EngineName = Annotated[str, Parameter(help=_engines())]


@dataclass(frozen=True)
class BakeOptions:
    """Options of `supple bake`; for None there is a default."""

    motion: str | None = None
    """Motion by name: in full, the part after its last |, or its last words, in any case; 'Idle*'
    bakes all that match. By default the liveliest. "wiggle" shakes and tilts, also what has no
    motion. Of a body model a file of AMASS or of a hand's poses (.npz)."""
    betas: BetaWords = None
    armature: ArmatureName = None
    all: Flag = False
    """All motions, with one model: into one file where the format holds several (glTF, USD), else
    a file for each."""
    start: Annotated[float | None, Parameter(name="--from")] = None
    """Second of the motion to begin at."""
    end: Annotated[float | None, Parameter(name="--to")] = None
    """Second of the motion to end at."""
    rate: float | None = None
    """Frames per second; by default those of a .blend or .fbx, 30 for others."""
    loop: Flag = False
    """Play until the cycle closes: the last frame leads into the first."""
    flesh: FleshName = "normal"
    """Stiffness by name: firm swings twice as fast as normal, jelly at a third."""
    young: float | None = None
    """Young's modulus in Pa, in place of the flesh's; 20000 is normal for a body of 2 m."""
    poisson: float | None = None
    """Poisson's ratio: how little its volume changes, below 0.5; by default 0.45."""
    damping: float = 1.0
    """Times the flesh's: 2 comes to rest sooner, 0.5 later."""
    stiffness: str | None = None
    """Where it is stiffer or softer: color:COLOR_0, a vertex colour whose brightness is a factor
    (color:COLOR_0:red for a channel), or a JSON file such as {"joints": {"Tail*": 0.3, "Head":
    5}, "vertices": {"10-20": 2}, "default": 1}."""
    anatomy: AnatomyName = None
    quality: Literal["live", "final"] = "live"
    """live: what view shows, to the bit. final: the engine's unreduced form (pose-space has one),
    all tets, with steps halved until that changes less than 2 %; no model is reduced. One that was
    interrupted goes on where it was."""
    engine: EngineName = FIRST_ENGINE
    method: Annotated[str | None, Parameter(show=False)] = None
    """The older word for --engine."""
    unit: UnitName = None
    model: Path | None = None
    """A model file of this character, in place of building one."""
    model_motion: str | None = None
    """File with the motion of a body model that its model is built for, so that clips in other
    files share one; by default the motion that is baked."""
    poses: Words = None
    """As for supple build: how many, auto, or frames such as Run:12."""
    modes: int | None = None
    """Number in all."""
    tets: int | None = None
    """Number of tetrahedra to fill the character with."""
    error: float | None = None
    """Distance that shapes may be from the simulation, as a part of the size; by default 0.002."""
    normals: Flag = False
    """Shapes of normals, too."""
    points: Literal["blend-shapes", "cache"] | None = None
    """USD only: "cache" for points at every frame in place of blend shapes."""
    drop_springs: Flag = False
    """VRM only: leave out springs that would move joints under the flesh, over what was baked."""
    report: Path | None = None
    """.html file that plays the result in a browser, beside the rig alone."""
    readings: Path | None = None
    """.csv file of what is felt at each frame, with soft-skeleton: force on the body, on each part
    of it and by each thing, torque of each joint, force and pressure of each contact."""
    clay: Flag = False
    """Have the report begin in clay, rather than in the character's own colours."""
    remove: Flag = False
    """Take the flesh off again: the file as it was before, to the byte; in place without -o."""

    def chosen_engine(self) -> str:
        """Return the name of the engine; warn if it was given by the older word."""
        if self.method is None:
            return self.engine
        warn("--method is called --engine now")
        return self.method

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.all and self.motion is not None:
            raise SuppleError(f'--all bakes every motion; leave it out for "{self.motion}" alone')
        if self.all and (self.start is not None or self.end is not None):
            raise SuppleError("--from and --to are seconds of one motion; name it with --motion")

    def live(self) -> BakeOptions:
        """Return the same options in live quality."""
        return replace(self, quality="live")

    def playing(self) -> dict[str, Any]:
        """Return the options of `supple.bake` that say which part is played, and how often."""
        return {"rate": self.rate, "start": self.start, "end": self.end, "loop": self.loop}

    def building(self) -> dict[str, Any]:
        """Return the options of `supple.bake` that say what is built."""
        told = {
            "young": self.young,
            "poisson": self.poisson,
            "poses": chosen_poses(self.poses),
            "modes": self.modes,
            "tets": self.tets,
        }
        return _given(told)

    def saving(self) -> dict[str, Any]:
        """Return the options of `supple.save`."""
        told = {"error": self.error, "points": self.points, "normals": self.normals or None}
        return _given(told | {"drop_springs": self.drop_springs or None})


@dataclass(frozen=True)
class BuildOptions:
    """Options of `supple build`; for None there is a default."""

    engine: EngineName = FIRST_ENGINE
    unit: UnitName = None
    motion: str | None = None
    """File with a motion of a body model, of AMASS or of a hand's poses (.npz)."""
    betas: BetaWords = None
    armature: ArmatureName = None
    free: Words = None
    """Controls that physics moves, for rig-space: names with *, such as 'tail*' belly; by default
    those that move flesh and that no motion keys."""
    poses: Words = None
    """Number, to be chosen from the motions; "auto", as many as it takes; or frames of motions,
    such as Run:12 Idle:0."""
    modes: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None
    """In all, or for each region."""
    basis: Literal["shaken", "modes"] | None = None
    """"shaken": one basis of what the body does when it is shaken, the default for files; "modes":
    one for each region, of its softest motions."""
    regions: Literal["auto", "none"] | None = None
    """Of a basis of modes: "auto" follows the bones; "none" is one for the whole body."""
    tets: int | None = None
    """Number of tetrahedra to fill the character with."""
    anatomy: AnatomyName = None
    material: Literal["stvk", "neo-hookean", "yeoh", "corotational", "stvk-volume"] | None = None
    """Material of the flesh; by default yeoh, which stiffens as it is strained, StVK without
    an anatomy, or what the scene has."""
    young: float | None = None
    """Young's modulus in Pa: how stiff it is; by default 20000 for a body of 2 m, and more for
    larger ones, so that all swing alike."""
    poisson: float | None = None
    """Poisson's ratio: how little its volume changes, below 0.5; by default 0.45."""
    contacts: Literal["two-sided", "one-sided", "fixed", "none"] | None = None
    """Kind of bond between parts that touch at a pose."""
    ground: float | None = None
    """Height of a floor that poses may stand on, in metres."""
    elastic: int | None = None
    """Number of cubature tets that a step evaluates; by default three a mode."""
    inertial: int | None = None
    """Number of cubature vertices that a step evaluates; by default three for two modes."""
    interpolation: Literal["frames", "world"] | None = None
    """Coordinates that bases are blended in: "frames", or "world" as Xu and Barbič 2016 do."""
    most_poses: int | None = None
    """Number of poses that "auto" may end with."""
    fit: float | None = None
    """Weight of elasticity when tets are fitted to a pose; more keeps them from inverting."""
    seed: int = 0
    """The same seed gives the same bytes."""
    sheet: Path | None = None
    """PNG to draw the model into: regions, softest motions, cubature, and how poses were
    aligned."""
    processes: int | None = None
    """Compute poses in so many processes, rather than in threads."""

    def building(self) -> dict[str, Any]:
        """Return the options of `supple.build`, but for the material and the floor."""
        told = {
            "poses": chosen_poses(self.poses),
            "modes": self._modes(),
            "basis": self.basis,
            "tets": self.tets,
            "free": self.free,
            "elastic_cubature": self.elastic,
            "inertial_cubature": self.inertial,
            "interpolation": self.interpolation,
            "most_poses": self.most_poses,
            "gamma": self.fit,
            "seed": self.seed,
        }
        options = _given(told)
        for name in ("regions", "contacts"):
            value = getattr(self, name)
            if value is not None:
                options[name] = None if value == "none" else value
        return options

    def material_constants(self) -> dict[str, Any]:
        """Return the fields of `supple.Material` that were given."""
        return _given({"kind": self.material, "young": self.young, "poisson": self.poisson})

    def _modes(self) -> int | list[int] | None:
        if self.modes is not None and len(self.modes) == 0:
            raise SuppleError("--modes needs one or more numbers, such as --modes 100")
        if self.modes is None or len(self.modes) > 1:
            return self.modes
        return self.modes[0]


@dataclass(frozen=True)
class CurveOptions:
    """Options of `supple curves`; for None there is a default."""

    free: Words = None
    """Controls that physics moves: names of parameters or joints, with * for anything, such as
    'tail*' belly; a .txt file with a name on each line; by default auto, those that move flesh and
    that no motion keys."""
    motion: str | None = None
    """Motion by name, as for bake, or a pattern that matches one; by default the liveliest. What
    has none is shaken, and gets a new animation. Of a body model a file, as for bake."""
    betas: BetaWords = None
    armature: ArmatureName = None
    span: Annotated[tuple[float, float] | None, Parameter(name="--range")] = None
    """First and last second of the motion; around them curves come and go."""
    rate: Annotated[float | None, Parameter(name=["--fps", "--rate"])] = None
    """Frames per second; by default the motion's own. The simulation is the same for all."""
    loop: Flag = False
    """Play until the cycle closes: the last frame leads into the first."""
    keys: Literal["every", "linear", "spline"] | None = None
    """Every frame a key, or as few as keep the skin within --error: linear, by default, or spline
    where the format has splines (glTF, JSON)."""
    error: float | None = None
    """Distance that keys may move the skin from the curves, as a part of the size; by default
    0.0005."""
    strength: float = 1.0
    """Part of what was simulated that is added: 0.5 for half, 2 for twice as much."""
    additive: Flag = False
    """Leave the clip alone, and add one that has only what physics adds, to be laid over it."""
    blend: float | None = None
    """Seconds in which curves come and go at both ends; by default 0.25 at those of a --range."""
    smooth: float = 0.0
    """Seconds: swings of this period are halved, faster ones go; 0.08 takes trembling out."""
    settle: float = 2.0
    """Seconds at most that the first pose is held before, until nothing swings."""
    flesh: FleshName = "normal"
    """Stiffness by name: firm swings twice as fast as normal, jelly at a third."""
    damping: Words = None
    """Times the flesh's: 2 comes to rest sooner, 0.5 later; or numbers by name, likewise, such as
    'tail*=2'."""
    follow: Words = None
    """Pull of controls to their keys, beside the flesh: a number, 1 leaves about a
    third of the motion, or numbers by name, such as 'tail*=0.5' belly=0."""
    firmness: Words = None
    """Factors on the stiffness of controls, likewise: 4 swings twice as fast."""
    tolerance: float | None = None
    """Error of time stepping that a second of motion may add, as a part of the size: steps are cut
    as finely as that takes, such as 0.01; by default they are 1/90 s."""
    anatomy: AnatomyName = None
    engine: EngineName = "rig-space"
    unit: UnitName = None
    model: Path | None = None
    """A model file of this character with free parameters, in place of building one."""
    model_motion: str | None = None
    """As for bake."""
    tets: int | None = None
    """Number of tetrahedra to fill the character with."""
    drop_springs: Flag = False
    """VRM only: leave out springs that would move the same joints, over these curves."""
    plot: Path | None = None
    """.png file with a chart of each curve, beside its keys."""
    page: Path | None = None
    """.html file that plays the rig alone, with curves, and with pose-space flesh."""
    remove: Flag = False
    """Take the curves out again: the file as it was before, to the byte; in place without -o."""

    def flesh_damping(self) -> float:
        """Return the factor on the damping of all flesh: 1 where some controls have their own."""
        told = 1.0 if self.damping is None else by_parameter("--damping", self.damping)
        return told if isinstance(told, float) else 1.0

    def playing(self) -> dict[str, Any]:
        """Return the options of `supple.curves` that say what is played, and how."""
        start, end = (None, None) if self.span is None else self.span
        told = {"rate": self.rate, "start": start, "end": end, "blend": self.blend}
        return {**told, "loop": self.loop}

    def saving(self) -> dict[str, Any]:
        """Return the options of `supple.save`."""
        told = {"keys": self.keys, "error": self.error, "additive": self.additive or None}
        return _given(told | {"drop_springs": self.drop_springs or None})


def by_parameter(option: str, words: Sequence[str]) -> float | dict[str, float]:
    """Return a number for all parameters, or numbers by names, from words such as ``tail*=0.5``."""
    found: dict[str, float] = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise SuppleError(f"{option} {word}: use a number, or NAME=NUMBER") from None
    if not found or ("" in found and len(words) > 1):
        raise SuppleError(f"{option} needs one number for all, or NAME=NUMBER for some")
    return found.get("", found)


def chosen_poses(words: Sequence[str] | None) -> int | str | list[str] | None:
    """Return the option `poses` of `supple.build` from words on the command line."""
    if words is None:
        return None
    if len(words) == 0:
        raise SuppleError("--poses needs a number, auto, or frames such as Run:12")
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        return int(words[0])
    return "auto" if list(words) == ["auto"] else list(words)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
