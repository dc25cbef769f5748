"""Options of a character's source, flesh and playback, declared once.

A field has the type, the default and the help text of an option. The commands `supple build`,
`bake`, `curves` and `view`, the jobs of `supple batch` and Python's `supple.bake` and
`supple.curves` take their options from these records; cyclopts makes ``--most-poses`` of
``most_poses``. An engine takes the options that are parameters of its builder or simulator
(`Engine`). Annotations here are objects, not text: subclasses in other modules inherit them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from supple.engines.engine import ENGINES, FIRST_ENGINE

Flag = Annotated[bool, Parameter(negative="")]
Words = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
Numbers = Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")]
FleshName = Literal["firm", "normal", "soft", "jelly", "human", "animal", "cartoon"]
Betas = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
_LISTED = "; ".join(
    f"{row.name}: {row.about}" for row in ENGINES.values() if row.moves == "character"
)
#: Name of an engine of characters.
EngineName = Annotated[str, Parameter(help=f"Engine that simulates the flesh. {_LISTED}.")]


@dataclass(frozen=True)
class SourceOptions:
    """Options for reading a character."""

    motion: str | None = None
    """Motion by name: the full name, the part after its last |, or its last words, in any case. By
    default the liveliest. For a body model: a motion file of AMASS or of hand poses (.npz)."""
    betas: Betas = None
    """Shape of a body model: numbers with commas, such as 1.5,-2, or "motion" for the
    motion file's; by default the average body."""
    armature: str | None = None
    """Name of the armature to use, for a .blend or .fbx file with several characters."""
    unit: str | None = None
    """Unit of the file's lengths: m, cm, mm, in, ft, or the number of metres; by default the
    file's own."""


@dataclass(frozen=True)
class FleshOptions:
    """Options for building a model of a character's flesh; None selects a default."""

    engine: EngineName = FIRST_ENGINE
    flesh: FleshName = "normal"
    """Preset of stiffness and damping. Firm flesh swings twice as fast as normal, jelly a third as
    fast. By kind of body: human (firm, comes to rest soon), animal (firm limbs, loose tail and
    ears) and cartoon (swings farther, and rings)."""
    young: float | None = None
    """Young's modulus in Pa, in place of the preset's; 20000 is normal for a body of 2 m, and
    it grows with the body's size, so that all bodies swing at the same frequencies."""
    poisson: float | None = None
    """Poisson's ratio, below 0.5; by default 0.45."""
    stiffness: str | None = None
    """Local stiffness factors: color:COLOR_0, a vertex colour whose brightness is the factor
    (color:COLOR_0:red for one channel), or a JSON file such as {"joints": {"Tail*": 0.3, "Head":
    5}, "vertices": {"10-20": 2}, "default": 1}."""
    anatomy: str | None = None
    """Which parts are bone, flesh, hard or separate: auto, the default, detects them from skin,
    joints and names; none fills everything around the bones with flesh; or a file
    NAME.anatomy.json, which info --anatomy and view write. Its preset, damping and swing act where
    these options have their defaults; its stiffness multiplies that of --stiffness."""
    free: Words = None
    """Controls that physics moves, for rig-space: names of parameters or joints with wildcards,
    such as 'tail*' belly; a .txt file with one name per line; or auto, the default: all that move
    flesh and that no motion keys."""
    bounds: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Bounds of free controls, for rig-space: LOWER,UPPER for all, or by name, such as
    'belly*=-1,1; cheek*=-0.5,1'. By default weights of shapes stay between 0 and 1, or in the range
    of the motions, so that a shape for down without one for up moves only down."""
    poses: Words = None
    """Example poses: how many to choose from the motions; auto, as many as needed; or frames of
    motions, such as Run:12 Idle:0."""
    modes: int | None = None
    """Number of modes."""
    tets: int | None = None
    """Number of tetrahedra to fill the character with."""


@dataclass(frozen=True)
class PlayOptions:
    """Options for playing a motion."""

    start: Annotated[float | None, Parameter(name="--from")] = None
    """First second of the motion to play."""
    end: Annotated[float | None, Parameter(name="--to")] = None
    """Last second of the motion to play."""
    rate: float | None = None
    """Frames per second; by default the file's own for .blend and .fbx, and 30 for others."""
    loop: Flag = False
    """Repeat the cycle until it closes: the last frame leads into the first."""

    def playing(self) -> dict[str, Any]:
        """Return the options by name."""
        return {"rate": self.rate, "start": self.start, "end": self.end, "loop": self.loop}


@dataclass(frozen=True)
class BakePlayOptions(PlayOptions):
    """Options for playing a motion that is baked."""

    damping: float = 1.0
    """Factor on the damping of the flesh: with 2 it comes to rest sooner, with 0.5 later."""
    quality: Literal["auto", "live", "final"] = "auto"
    """live: the reduced model, with the same bits as in view. final: the full simulation of all
    tets (pose-space has one), whose steps are halved until the result changes by less than 2 %; an
    interrupted final bake resumes. auto: the full simulation, within 5 %, where it is expected to
    take at most twice as long as live, otherwise live."""
    swing: Words = None
    """Largest swing of the flesh in this motion: 3% of the size, or by region, belly=4cm
    'Tail*=10%'. The flesh is made as stiff as necessary. Regions are joints with wildcards, roles
    of the anatomy, belly, back, meshes, materials or painted maps. All words after --swing are read
    as goals, so name the source before it."""


@dataclass(frozen=True)
class CurvePlayOptions(PlayOptions):
    """Options for playing a motion to make curves of it."""

    settle: float = 2.0
    """Longest time in seconds that the first pose is held before the motion, until the flesh is
    at rest."""
    blend: float | None = None
    """Seconds in which curves fade in and out at both ends; by default 0.25 where a part of a clip
    begins or ends inside it."""
    smooth: float = 0.08
    """Smoothing in seconds: swings of this period are halved, faster ones vanish, which frames
    cannot show; 0 keeps all."""
    strength: float = 1.0
    """Factor on the simulated motion that is added: 0.5 for half, 2 for twice as much."""
    solver: str | None = None
    """Solver of rig-space: condensed, the default; rsp, of Hahn et al. 2012; or iv1-je1, iv1-je2,
    iv2-je1, iv2-je2, of Hahn et al. 2013."""
    deferral: float | None = None
    """Energy in J/kg of a rig's nonlinearity in a step up to which its Jacobian is kept: 0 for a
    new Jacobian at every iteration; by default 0.00001 for rigs without analytic derivatives, and
    0 for others."""


def option_values(record: type, options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options that a record declares; return them, with defaults for the others."""
    return {each.name: options.pop(each.name, each.default) for each in fields(record)}


def without_defaults(record: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` without a record's options that are None.

    `anatomy` is kept, because its None means bones alone.
    """
    names = {each.name for each in fields(record)} - {"anatomy"}
    return {
        name: value for name, value in options.items() if value is not None or name not in names
    }


def without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
