"""Functions that build, load and simulate models of any engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supple.engines.engine import ENGINES, FIRST_ENGINE, MODEL_FORMAT, engine_named, engine_of
from supple.errors import FormatError
from supple.tensors import checked_json, header_texts


def build(character: Any, *, engine: str = FIRST_ENGINE, **options: Any) -> Any:
    """Build the model of a character for an engine.

    Parameters
    ----------
    character
        See `supple.load`; a mesh for engines of bodies.
    engine
        Name of a row of `supple.engines.ENGINES`, such as ``"pose-space"``.
    **options
        Options of the engine's builder. Pose-space has, among others, ``poses``, ``modes``,
        ``tets``, ``material``, ``young``, ``poisson``, ``regions``, ``contacts``, ``executor``,
        ``log``: see `supple.engines.pose_space.build`.

    Returns
    -------
    model
        Model, which `supple.Simulator` steps.

    Examples
    --------
    >>> import supple
    >>> from supple.scenes import scene
    >>> x = scene("x")
    >>> model = supple.build(x.character, **(x.recipe() | {"tets": 1000, "modes": 8}))
    >>> model.engine
    'pose-space'
    """
    return engine_named(engine).build_model(character, **options)


def load_model(path: str | Path, **options: Any) -> Any:
    """Read a model file of any engine; the file's header names the engine.

    Parameters
    ----------
    path
        File that ``model.save`` wrote. Nothing in it is executed.
    **options
        Options of the model's ``load``: ``rig=`` for pose-space models of a black-box rig.

    Raises
    ------
    FormatError
        If the file is not a model, is damaged, or is for an engine that does not exist.
    """
    path = Path(path)
    texts = header_texts(path)
    file_format, engine = texts.get("format", ""), FIRST_ENGINE
    if file_format == MODEL_FORMAT:
        try:
            header = checked_json(texts.get("header", "{}"), "its header")
        except FormatError as error:
            raise FormatError(f"{path.name}: {error}") from error
        if not isinstance(header, dict):
            raise FormatError(
                f"{path.name}: its header is not a JSON object; build the model again"
            )
        engine = header.get("engine", FIRST_ENGINE)
    for row in ENGINES.values():
        if row.file_format == file_format and (file_format != MODEL_FORMAT or row.name == engine):
            return row.model_class.load(path, **options)
    if file_format == MODEL_FORMAT:
        raise FormatError(
            f'{path.name}: is for the engine "{engine}", which is not in this version'
        )
    raise FormatError(f"{path.name}: is a safetensors file, but not a model of Supple")


class _AnyEngine(type):
    """Class of `Simulator`: simulators of all engines are its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        name = getattr(getattr(instance, "model", None), "engine", None)
        return isinstance(name, str) and name in ENGINES


class Simulator(metaclass=_AnyEngine):
    """Make the simulator of a model's engine.

    Parameters
    ----------
    model
        Model of `supple.build` or `supple.load_model`.
    dt
        Time step in s; by default 1/90 for characters. Bakes and the viewer step pose-space by
        1/180, which is more accurate.
    engine
        Another engine that can step the model: "full" for pose-space models, "stvk-free" for
        unconstrained StVK bodies.
    **options
        Options of the engine's simulator: `supple.engines.pose_space.PoseSpaceSimulator` has
        `alpha`, `beta`, `gravity`, `obstacles`, limits and more.

    Returns
    -------
    CharacterEngine or BodyEngine
        Object of the class of the engine's simulator.

    Examples
    --------
    >>> import supple
    >>> from supple.scenes import beam
    >>> model = supple.build(beam(cells=(4, 1, 1)), engine="stvk", modes=4)
    >>> type(supple.Simulator(model, dt=1 / 500)).__name__
    'StvkSimulator'
    """

    def __new__(
        cls, model: Any, dt: float | None = None, *, engine: str | None = None, **options: Any
    ) -> Any:
        """Make an object of the engine's class."""
        if dt is not None:
            options["dt"] = dt
        row = engine_of(model)
        if engine is not None:
            row = engine_named(engine, row.moves)
        return row.make_simulator(model, **options)
