"""Options of `supple bake` and `supple build`: the command line fills them, and passes them on.

A field's text is the option's help; cyclopts makes ``--most-poses`` of ``most_poses``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from supple.engines.engine import ENGINES, FIRST_ENGINE
from supple.errors import SuppleError, warn

__all__ = [
    "AnatomyName",
    "BakeOptions",
    "BuildOptions",
    "EngineName",
    "Flag",
    "FleshName",
    "UnitName",
    "Words",
]

Flag = Annotated[bool, Parameter(negative="")]
Words = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
FleshName = Literal["firm", "normal", "soft", "jelly"]
#: Word for an anatomy; None for `supple.playing.bake_model.ANATOMY`.
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
    """Which; by default the liveliest. "wiggle" shakes and tilts, also what has no motion."""
    all: Flag = False
    """All motions, with one model: into one file where the format holds several (glTF, USD), else
    a file for each."""
    start: Annotated[float | None, Parameter(name="--from")] = None
    """Second of the motion to begin at."""
    end: Annotated[float | None, Parameter(name="--to")] = None
    """Second of the motion to end at."""
    rate: float = 30.0
    """Frames per second."""
    loop: Flag = False
    """Play until the cycle closes: the last frame leads into the first."""
    flesh: FleshName = "normal"
    """How stiff it is: firm swings twice as fast as normal, jelly at a third."""
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
    engine: EngineName = FIRST_ENGINE
    method: Annotated[str | None, Parameter(show=False)] = None
    """The older word for --engine."""
    unit: UnitName = None
    model: Path | None = None
    """A model file of this character, in place of building one."""
    poses: Words = None
    """As for supple build: how many, auto, or frames such as Run:12."""
    modes: int | None = None
    """How many in all."""
    tets: int | None = None
    """How many tetrahedra to fill the character with."""
    error: float | None = None
    """How far shapes may be from the simulation, as a part of the size; by default 0.002."""
    normals: Flag = False
    """Shapes of normals, too."""
    points: Literal["blend-shapes", "cache"] | None = None
    """USD only: "cache" for points at every frame in place of blend shapes."""
    report: Path | None = None
    """.html file that plays the result in a browser, beside the rig alone."""
    clay: Flag = False
    """Have the report begin in clay, rather than in the character's own colours."""

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
        return _given(told)


@dataclass(frozen=True)
class BuildOptions:
    """Options of `supple build`; for None there is a default."""

    engine: EngineName = FIRST_ENGINE
    unit: UnitName = None
    poses: Words = None
    """How many, to be chosen from the motions; "auto", as many as it takes; or frames of motions,
    such as Run:12 Idle:0."""
    modes: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None
    """In all, or for each region."""
    regions: Literal["auto", "none"] | None = None
    """"auto" follows the bones; "none" is one basis for the whole body."""
    tets: int | None = None
    """How many tetrahedra to fill the character with."""
    anatomy: AnatomyName = None
    material: Literal["stvk", "neo-hookean", "yeoh", "corotational", "stvk-volume"] | None = None
    """What the flesh is made of; by default yeoh, which stiffens as it is strained, StVK without
    an anatomy, or what the scene has."""
    young: float | None = None
    """Young's modulus in Pa: how stiff it is; by default 20000 for a body of 2 m, and more for
    larger ones, so that all swing alike."""
    poisson: float | None = None
    """Poisson's ratio: how little its volume changes, below 0.5; by default 0.45."""
    contacts: Literal["two-sided", "one-sided", "fixed", "none"] | None = None
    """How parts that touch at a pose bind each other there."""
    ground: float | None = None
    """Height of a floor that poses may stand on, in metres."""
    elastic: int | None = None
    """How many cubature tets a step evaluates; by default three a mode."""
    inertial: int | None = None
    """How many cubature vertices a step evaluates; by default three for two modes."""
    interpolation: Literal["frames", "world"] | None = None
    """What bases are blended in: "frames", or "world" as Xu and Barbič 2016 do."""
    most_poses: int | None = None
    """How many poses "auto" may end with."""
    fit: float | None = None
    """What elasticity counts when tets are fitted to a pose; more keeps them from inverting."""
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
            "tets": self.tets,
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
