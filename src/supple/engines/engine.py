"""The contract of engines, and the list of them.

A *character engine* moves the flesh of a rigged character: poses and roots in, the skin out. A
*body engine* does the same for an elastic body without a rig. `ENGINES` has a row for each;
commands, `supple.bake`, `supple.Player` and the viewer know engines by these rows and by the
protocols below, and by nothing else; what only some engines have is in `optional_parts`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from supple.checks import shown
from supple.errors import SuppleError

if TYPE_CHECKING:  # commands list engines, and should not wait for NumPy and Numba
    from supple.arrays import Singles
    from supple.dynamics.character_inputs import Before, Forces, Given
    from supple.mesh.obstacles import Obstacle
    from supple.mesh.surface import SurfaceMesh
    from supple.rig.motion.motion import Motion
    from supple.rig.protocol import Rig

#: Engine of a model file that names none.
FIRST_ENGINE = "pose-space"
#: Text that opens every model file, but those of formats that came before it.
MODEL_FORMAT = "supple model"


class StepState(Protocol):
    """Report of one step."""

    @property
    def time(self) -> float:
        """Seconds since the reset."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the limits that acted; none in a healthy step."""

    @property
    def readings(self) -> Mapping[str, Any]:
        """Figures of this step by name: contact forces, joint torques, counts."""


class CharacterModel(Protocol):
    """Model of a character, as its engine builds and steps it."""

    engine: ClassVar[str]
    """Name of the row in `ENGINES`."""

    @property
    def name(self) -> str:
        """Name of the character."""

    @property
    def surface(self) -> SurfaceMesh:
        """Skin at rest, n̄ vertices."""

    @property
    def rig(self) -> Rig:
        """Rig of the skin."""

    @property
    def motions(self) -> Mapping[str, Motion]:
        """Motions by name."""

    @property
    def figures(self) -> Mapping[str, Any]:
        """Sizes by name, for reports."""

    def save(self, path: str | Path) -> None:
        """Write the model to a file."""


@runtime_checkable
class CharacterEngine(Protocol):
    """Simulator of a character's flesh."""

    @property
    def model(self) -> Any:
        """Model that is stepped, a `CharacterModel`."""

    @property
    def dt(self) -> float:
        """Seconds from one pose to the next."""

    @property
    def obstacles(self) -> Sequence[Obstacle]:
        """Solid things in the world that the skin is pushed out of; to be set between steps."""

    @property
    def stiffness(self) -> float:
        """Factor on the model's stiffness; to be set between steps."""

    def reset(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Start anew, undeformed: at rest, or as fast as from `before`, a step earlier."""

    def step(
        self, pose: Given = None, root: Given = None, forces: Forces | None = None
    ) -> StepState:
        """Advance by `dt` to a pose and root, with forces in N on vertices of the skin."""

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32."""

    def teleport(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Go to a pose and root with the flesh as it is in the root's frame: no inertia acts."""


@runtime_checkable
class BodyEngine(Protocol):
    """Simulator of an elastic body without a rig."""

    @property
    def model(self) -> Any:
        """Body that is stepped."""

    @property
    def dt(self) -> float:
        """Seconds of a step."""

    def reset(self) -> None:
        """Start anew, undeformed and at rest."""

    def step(self, forces: Any = None) -> StepState:
        """Advance by `dt`, with forces in N on vertices of the surface."""

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the surface in the world, (n̄, 3) float32."""


@dataclass(frozen=True)
class Engine:
    """Row of `ENGINES`: where an engine's parts are, and which options they take.

    Attributes
    ----------
    name, about
        Name for `engine=` and ``--engine``, and a line for people.
    moves
        ``"character"`` or ``"body"``.
    model
        ``"module:Class"`` of its models, with ``save(path)`` and ``load(path)``.
    builder
        ``"module:function"``: builder(character or mesh, **options) gives a model.
    simulator
        ``"module:Class"``: simulator(model, dt, **options) is a `CharacterEngine` or `BodyEngine`.
    crowd
        ``"module:Class"``: crowd(model, count, **options); empty where there is none.
    bake_options
        Options of the builder that `supple.bake` gives where nobody says otherwise.
    preparer
        ``"module:function"``: preparer(character, options) gives the character whose anatomy a
        build with these options is of, or None if it has none; empty where it is the same.
    may_stiffen
        Whether `supple.bake` may make flesh stiffer where a motion is too violent for it.
    real_loads
        Whether forces are read in newtons: gravity is then the world's for bodies of any size,
        rather than as much larger or smaller as they are.
    unreduced
        Name of the row that is its unreduced form, which `supple.bake` plays for
        ``quality="final"``; empty where it has none.
    also_steps
        Engines whose models it steps beside its own.
    longest_step
        Longest step of time, in s: characters are stepped at least as often, whatever the frame
        rate.
    softest
        Least Young's modulus in Pa of flesh that nobody gave one: what carries a load is no softer
        for being small.
    file_format
        Text that opens its model files.
    """

    name: str
    about: str
    moves: Literal["character", "body"]
    model: str
    builder: str
    simulator: str
    crowd: str = ""
    bake_options: Mapping[str, Any] = field(default_factory=dict)
    preparer: str = ""
    may_stiffen: bool = False
    real_loads: bool = False
    unreduced: str = ""
    also_steps: tuple[str, ...] = ()
    longest_step: float = 1 / 90
    softest: float = 0.0
    file_format: str = MODEL_FORMAT

    @cached_property
    def build(self) -> Callable[..., Any]:
        """Function that builds a model."""
        return _found(self.builder)

    @cached_property
    def simulate(self) -> Callable[..., Any]:
        """Class of the simulator."""
        return _found(self.simulator)

    @cached_property
    def model_class(self) -> Any:
        """Class of the models."""
        return _found(self.model)

    @cached_property
    def crowd_class(self) -> Callable[..., Any]:
        """Class of crowds; an error where the engine has none."""
        if not self.crowd:
            raise SuppleError(f"the engine {self.name} has no crowd")
        return _found(self.crowd)

    def steps(self, model: Any) -> bool:
        """Return whether its simulator takes a model."""
        return getattr(model, "engine", None) in (self.model_class.engine, *self.also_steps)

    def prepared(self, character: Any, options: Mapping[str, Any]) -> Any:
        """Return the character whose anatomy a build with these options is of; None for none."""
        return _found(self.preparer)(character, options) if self.preparer else character

    @cached_property
    def build_options(self) -> tuple[str, ...]:
        """Names of the options that the builder takes."""
        return _options(self.build, 1)

    def taken(self, **offered: Any) -> dict[str, Any]:
        """Return those of the offered options that the builder takes."""
        parameters = inspect.signature(self.build).parameters.values()
        if any(each.kind is each.VAR_KEYWORD for each in parameters):
            return offered
        return {name: value for name, value in offered.items() if name in self.build_options}

    def build_model(self, subject: Any, **options: Any) -> Any:
        """Build the model of a character or mesh; refuse options that the builder does not take."""
        for name in options:
            if not self.taken(**{name: None}):
                has = ", ".join(self.build_options) or "none"
                raise SuppleError(f'the engine {self.name} has no option "{name}"; it has {has}')
        return self.build(subject, **options)

    @cached_property
    def step_options(self) -> tuple[str, ...]:
        """Names of the options that the simulator takes, beside its model and `dt`."""
        return _options(self.simulate, 2)


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(module))


def _options(function: Callable[..., Any], given: int) -> tuple[str, ...]:
    """Return names of parameters that can be told by name, but for the first `given`."""
    parameters = [*inspect.signature(function).parameters.values()][given:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(each.name for each in parameters if each.kind in named)


#: Options of flesh that is built within a minute, the same reduced and unreduced.
_QUICK = {"tets": 8_000, "most_poses": 6}
#: Engines by name. A new one is a folder beside this file, and a row here.
ENGINES: dict[str, Engine] = {
    each.name: each
    for each in (
        Engine(
            "pose-space",
            "reduced at several poses and blended every step (Xu and Barbič 2016)",
            "character",
            model="supple.engines.pose_space.model.model:PoseSpaceModel",
            builder="supple.engines.pose_space.build.build:build",
            simulator="supple.engines.pose_space.simulator:PoseSpaceSimulator",
            crowd="supple.engines.pose_space.crowd:Crowd",
            bake_options={**_QUICK, "modes": 100, "basis": "shaken"},
            may_stiffen=True,
            unreduced="full",
            longest_step=1 / 180,
        ),
        Engine(
            "full",
            "all tets, unreduced: takes minutes, and is the truth others are compared with",
            "character",
            model="supple.engines.full.model:FullModel",
            builder="supple.engines.full.model:build",
            simulator="supple.engines.full.full_character:FullCharacterSimulator",
            bake_options=_QUICK,
            unreduced="full",
            also_steps=(FIRST_ENGINE,),
        ),
        Engine(
            "rig-space",
            "moves the rig's own free controls, as curves to edit (Hahn et al. 2013)",
            "character",
            model="supple.engines.rig_space.model:RigSpaceModel",
            builder="supple.engines.rig_space.build:build",
            simulator="supple.engines.rig_space.simulator:RigSpaceSimulator",
            crowd="supple.engines.rig_space.crowd:RigSpaceCrowd",
            bake_options={"tets": 4_000},
            preparer="supple.engines.rig_space.shaped_flesh:prepared_character",
        ),
        Engine(
            "soft-skeleton",
            "bones, flesh and skin that touch things and feel it (Tapia et al. 2021)",
            "character",
            model="supple.engines.soft_skeleton.model:SoftSkeletonModel",
            builder="supple.engines.soft_skeleton.build:build",
            simulator="supple.engines.soft_skeleton.simulator:SoftSkeletonSimulator",
            bake_options={"tets": 8_000},
            real_loads=True,
            softest=10e3,
        ),
        Engine(
            "stvk",
            "a Saint Venant–Kirchhoff body in a basis, at kilohertz (Barbič and James 2005)",
            "body",
            model="supple.engines.stvk.model:StvkModel",
            builder="supple.engines.stvk.model:StvkModel.build",
            simulator="supple.engines.stvk.simulator:StvkSimulator",
            file_format="supple stvk",
        ),
        Engine(
            "stvk-free",
            "the same, of a body that nothing holds: it flies, turns and deforms",
            "body",
            model="supple.engines.stvk.model:StvkModel",
            builder="supple.engines.stvk.model:StvkModel.build",
            simulator="supple.engines.stvk.free.simulator:FreeStvkSimulator",
            file_format="supple stvk",
        ),
    )
}


def engine_named(name: str, moves: Literal["character", "body"] | None = None) -> Engine:
    """Return the row of an engine.

    Parameters
    ----------
    name
        As in `ENGINES`; others are refused, with those that are there.
    moves
        Accept only engines of characters, or only those of bodies.
    """
    known = [each for each, row in ENGINES.items() if moves in (None, row.moves)]
    if isinstance(name, str) and name in known:
        return ENGINES[name]
    if isinstance(name, str) and name in ENGINES:
        raise SuppleError(f"the engine {name} is for a {ENGINES[name].moves}, not a {moves}")
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise SuppleError(f'no engine "{name}"; {hint}')


def engine_of(model: Any) -> Engine:
    """Return the row of the engine that a model is for; an error for what is no model."""
    name = getattr(model, "engine", None)
    if not isinstance(name, str) or name not in ENGINES:
        raise SuppleError(
            f"{shown(model)} is no model; supple.build and supple.load_model give one"
        )
    return ENGINES[name]
