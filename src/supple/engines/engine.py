"""Protocols of engines, and the table of engines.

A *character engine* simulates the flesh of a rigged character: it takes poses and roots and
returns the skin. A *body engine* does the same for an elastic body without a rig. `ENGINES` has one
row per engine. Commands, `supple.bake`, `supple.Player` and the viewer use only these rows, the
protocols below and the protocols in `optional_parts`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from supple.errors import SuppleError

if TYPE_CHECKING:  # commands list engines without importing NumPy and Numba
    from supple.arrays import Singles
    from supple.dynamics.character_inputs import Before, Forces, Given
    from supple.mesh.obstacles import Obstacle
    from supple.mesh.surface import SurfaceMesh
    from supple.rig.motion.motion import Motion
    from supple.rig.protocol import Rig

#: Default engine, also of model files that name none.
FIRST_ENGINE = "pose-space"
#: Suffixes of model files of characters and of bodies.
CHARACTER_MODEL, BODY_MODEL = ".supple", ".stvk"
#: First text of model files, except those of older formats.
MODEL_FORMAT = "supple model"


class StepState(Protocol):
    """Report of one step."""

    @property
    def time(self) -> float:
        """Seconds since the reset."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the limits that were applied; empty in a regular step."""

    @property
    def readings(self) -> Mapping[str, Any]:
        """Measurements of this step by name: contact forces, joint torques, counts."""


class CharacterModel(Protocol):
    """Model of a character, built and stepped by an engine."""

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
        """Solid obstacles in the world that push the skin out; may be set between steps."""

    @property
    def stiffness(self) -> float:
        """Factor on the model's stiffness; may be set between steps."""

    def reset(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Restart undeformed: at rest, or with the velocity since `before`, a step earlier."""

    def step(
        self, pose: Given = None, root: Given = None, forces: Forces | None = None
    ) -> StepState:
        """Advance by `dt` to a pose and root, with forces in N on skin vertices."""

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
        """Restart undeformed and at rest."""

    def step(self, forces: Any = None) -> StepState:
        """Advance by `dt`, with forces in N on surface vertices."""

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the surface in the world, (n̄, 3) float32."""


@dataclass(frozen=True)
class Engine:
    """Row of `ENGINES`: import paths of an engine's parts, and its properties.

    Attributes
    ----------
    name, about
        Name for `engine=` and ``--engine``, and a one-line description.
    moves
        ``"character"`` or ``"body"``.
    model
        ``"module:Class"`` of its models, with ``save(path)`` and ``load(path)``.
    builder
        ``"module:function"``: builder(character or mesh, **options) returns a model.
    simulator
        ``"module:Class"``: simulator(model, dt, **options) is a `CharacterEngine` or `BodyEngine`.
    crowd
        ``"module:Class"``: crowd(model, count, **options); empty without crowds.
    bake_options
        Defaults of the builder's options for `supple.bake`.
    preparer
        ``"module:function"``: preparer(character, options) returns the character whose anatomy is
        used, or None for no anatomy; empty for the character itself.
    may_stiffen
        Whether `supple.bake` may stiffen the flesh where a motion is too violent.
    real_loads
        Whether forces are physical: gravity is then 9.81 m/s² for bodies of any size. Otherwise
        gravity scales with the size.
    unreduced
        Name of its unreduced engine, which `supple.bake` uses for ``quality="final"``; empty for
        none.
    also_steps
        Other engines whose models it can step.
    longest_step
        Largest time step in s, at any frame rate.
    softest
        Lower bound of the default Young's modulus, in Pa.
    file_format
        First text of its model files.
    program
        ``"module:function"``: function(model, dt, **options) returns its step as a `Program`, which
        runs without Python; empty if there is none.
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
    program: str = ""

    @cached_property
    def build(self) -> Callable[..., Any]:
        """Function that builds a model."""
        return _imported(self.builder)

    @cached_property
    def simulate(self) -> Callable[..., Any]:
        """Class of the simulator."""
        return _imported(self.simulator)

    @cached_property
    def model_class(self) -> Any:
        """Class of the models."""
        return _imported(self.model)

    @cached_property
    def step_program(self) -> Callable[..., Any]:
        """Function that returns a model's step as a program; a SuppleError if there is none."""
        if not self.program:
            raise SuppleError(f"steps of the engine {self.name} run in Python only")
        return _imported(self.program)

    @cached_property
    def crowd_class(self) -> Callable[..., Any]:
        """Class of crowds; raises a SuppleError if the engine has none."""
        if not self.crowd:
            raise SuppleError(f"the engine {self.name} cannot simulate crowds")
        return _imported(self.crowd)

    def steps(self, model: Any) -> bool:
        """Return whether its simulator can step a model."""
        return getattr(model, "engine", None) in (self.model_class.engine, *self.also_steps)

    def prepared(self, character: Any, options: Mapping[str, Any]) -> Any:
        """Return the character whose anatomy a build uses; None for no anatomy."""
        return _imported(self.preparer)(character, options) if self.preparer else character

    @cached_property
    def build_options(self) -> tuple[str, ...]:
        """Names of the builder's options."""
        return _option_names(self.build, 1)

    @cached_property
    def step_options(self) -> tuple[str, ...]:
        """Names of the simulator's options, except its model and `dt`."""
        return _option_names(self.simulate, 2)

    @cached_property
    def feels_at_run_time(self) -> bool:
        """Whether simulators take stiffness by region, so that one model serves all stiffnesses."""
        return hasattr(self.simulate, "local_stiffness")

    @cached_property
    def damps_at_run_time(self) -> bool:
        """Whether simulators take damping by region."""
        return hasattr(self.simulate, "local_damping")

    @cached_property
    def takes_any_option(self) -> bool:
        """Whether the builder accepts arbitrary keywords (``**``)."""
        return _takes_any(self.build)

    def check_options(self, options: Iterable[str]) -> None:
        """Refuse options that the builder does not have."""
        if not self.takes_any_option:
            check_names(f"the engine {self.name}", options, self.build_options)

    def accepted_options(self, **options: Any) -> dict[str, Any]:
        """Return the options that the builder accepts."""
        if self.takes_any_option:
            return options
        return {name: value for name, value in options.items() if name in self.build_options}

    def build_model(self, subject: Any, **options: Any) -> Any:
        """Build the model of a character or mesh; refuse options that the builder does not have."""
        self.check_options(options)
        return self.build(subject, **options)

    def make_simulator(self, model: Any, *args: Any, **options: Any) -> Any:
        """Make a simulator of a model; refuse options that the simulator does not have."""
        if not _takes_any(self.simulate):
            check_names(f"the simulator of {self.name}", options, (*self.step_options, "dt"))
        return self.simulate(model, *args, **options)


def check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that does not exist; suggest the nearest one."""
    known = tuple(dict.fromkeys(known))
    for name in names:
        if name not in known:
            hint = _hint(name, known, f"it has {', '.join(known) or 'none'}")
            raise SuppleError(f'{what} has no option "{name}"; {hint}')


def _hint(name: object, known: Sequence[str], otherwise: str) -> str:
    """Return a question with the nearest of the known names; `otherwise` if none is near."""
    near = difflib.get_close_matches(str(name), known, 1)
    return f'did you mean "{near[0]}"?' if near else otherwise


def _imported(path: str) -> Any:
    """Import a module and return one of its objects, for a path ``"module:name"``."""
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module))


def _takes_any(function: Callable[..., Any]) -> bool:
    """Return whether a function accepts arbitrary keywords (``**``)."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _option_names(function: Callable[..., Any], skipped: int) -> tuple[str, ...]:
    """Return names of the parameters that can be keywords, without the first `skipped`."""
    parameters = [*inspect.signature(function).parameters.values()][skipped:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(parameter.name for parameter in parameters if parameter.kind in named)


#: Options of a build within a minute, for the reduced and the unreduced engine.
_QUICK = {"tets": 8_000, "most_poses": 6}
#: Engines by name. A new one is a folder beside this file and a row here.
ENGINES: dict[str, Engine] = {
    row.name: row
    for row in (
        Engine(
            "pose-space",
            "reduced at several poses and blended every step (Xu and Barbič 2016)",
            "character",
            model="supple.engines.pose_space.model.model:PoseSpaceModel",
            builder="supple.engines.pose_space.build.build:build",
            simulator="supple.engines.pose_space.simulator:PoseSpaceSimulator",
            crowd="supple.engines.pose_space.crowd:Crowd",
            program="supple.engines.pose_space.step_program:step_program",
            bake_options={**_QUICK, "modes": 100, "basis": "shaken"},
            may_stiffen=True,
            unreduced="full",
            longest_step=1 / 180,
        ),
        Engine(
            "full",
            "all tets, unreduced: takes minutes, and is the reference for the others",
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
            "moves free controls of the rig, as curves to edit (Hahn et al. 2013)",
            "character",
            model="supple.engines.rig_space.model:RigSpaceModel",
            builder="supple.engines.rig_space.build:build",
            simulator="supple.engines.rig_space.simulator:RigSpaceSimulator",
            crowd="supple.engines.rig_space.crowd:RigSpaceCrowd",
            bake_options={"tets": 4_000},
            preparer="supple.engines.rig_space.build:prepared_character",
        ),
        Engine(
            "soft-skeleton",
            "bones, flesh and skin in contact, with contact forces (Tapia et al. 2021)",
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
            "the same for an unconstrained body that flies, rotates and deforms",
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
        Key of `ENGINES`; the error for another name suggests the nearest.
    moves
        Accept only engines of characters, or only engines of bodies.
    """
    names = [row.name for row in ENGINES.values() if moves in (None, row.moves)]
    if isinstance(name, str) and name in names:
        return ENGINES[name]
    if isinstance(name, str) and name in ENGINES:
        raise SuppleError(f"the engine {name} is for a {ENGINES[name].moves}, not a {moves}")
    hint = _hint(name, names, f"there are {', '.join(names)}")
    raise SuppleError(f'no engine "{name}"; {hint}')


def engine_of(model: Any) -> Engine:
    """Return the row of a model's engine; raise a SuppleError for other objects."""
    name = getattr(model, "engine", None)
    if not isinstance(name, str) or name not in ENGINES:
        from supple.checks import shown

        raise SuppleError(
            f"{shown(model)} is not a model; supple.build and supple.load_model return one"
        )
    return ENGINES[name]
