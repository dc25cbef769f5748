"""Baking: the skin of a character with flesh at every frame of a motion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from supple.engines.common.option_record import takes_options
from supple.engines.engine import (
    CharacterModel,
    check_names,
)
from supple.engines.options import BakePlayOptions, FleshOptions
from supple.errors import SuppleError
from supple.playback.bake_model import ANATOMY
from supple.playback.bake_plan import (
    bake_plan,
)
from supple.playback.character_sources import source_of
from supple.playback.final_take import (
    Checkpoint,
)
from supple.playback.motion_choice import chosen_motions
from supple.playback.progress_bar import ShownProgress
from supple.playback.request import BakeRequest
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion


@takes_options(BakePlayOptions, FleshOptions, anatomy=ANATOMY)
def bake(
    character: Character | str | Path,
    motion: Motion | str | None = None,
    model: CharacterModel | None = None,
    *,
    engine: str | None = None,
    simulation: Mapping[str, Any] | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **options: Any,
) -> BakedMotion:
    """Play a motion and store the skin at every frame.

    Parameters
    ----------
    character
        Character of `supple.load`, or the path of a file.
    motion
        Motion, or the name of one of the character's, such as ``"Run"`` for
        ``"RatArmature|Rat_Run"`` (`Character.motion` has the rules); by default its liveliest.
        ``"wiggle"`` shakes and tilts the character, and is the default without motions.
    model
        Model of this character; by default it is built, or read from the cache.
    engine
        Key of `supple.engines.ENGINES`; by default the model's, or "pose-space". "full" steps all
        tets, which takes minutes.
    simulation
        More options of the simulator, such as ``{"gravity_mode": "none"}``.
    progress
        A function called with the part done, 0 to 1, and the name of the task; True or False to
        show a bar or not; by default a bar on a terminal and in a notebook.
    keep
        Read the model from the user's cache folder, or write it there: a model is found by the
        content of the character and the options, as by ``supple bake``. By default True, unless
        the environment variable ``SUPPLE_KEEP_MODELS`` is 0.
    checkpoints
        A list that receives the `Checkpoint` of each final bake, to be removed by the caller; by
        default it is removed here. An interrupted final bake resumes.
    **options
        Options of `BakePlayOptions` and `FleshOptions`: ``rate`` (30 by default), ``start``,
        ``end``, ``loop``, ``damping``, ``quality``, ``swing``, ``flesh``, ``young``, ``poisson``,
        ``stiffness``, ``anatomy``, ``tets`` and others. ``young`` and ``poisson`` may also be
        painted on the skin, ``stiffness`` holds factors by joint or vertex (`stiffness_factors`),
        ``swing`` peaks such as ``"3%"`` or ``{"belly": "4cm", "Tail*": 0.1}`` (`swing_goals`),
        ``anatomy`` is "auto", an `Anatomy`, an anatomy file or None for bones alone. All others are
        options of the engine's builder.

    Raises
    ------
    SuppleError
        For options and characters that cannot be baked.

    Warns
    -----
    SuppleWarning
        If a rig jumps where it loops, the flesh does not repeat itself, the motion is so violent
        that flesh was made stiffer (``{"stiffness": 1}`` in `simulation` prevents it), or the
        simulation had to restart; if flesh moves by less than 0.2 % of the size, with the reason.
    """
    source = source_of(character)
    request = BakeRequest.of("bake", source, model, engine, simulation, keep, options)
    plan = bake_plan(source.character, motion, **request.playing, engine=request.live.name)
    return request.decided([plan]).bake([plan], progress, checkpoints)[0]


@takes_options(BakePlayOptions, FleshOptions, anatomy=ANATOMY, without=("start", "end"))
def bake_all(
    character: Character | str | Path,
    model: CharacterModel | None = None,
    *,
    motions: Motion | str | Iterable[Motion | str] | None = None,
    engine: str | None = None,
    simulation: Mapping[str, Any] | None = None,
    progress: ShownProgress = None,
    keep: bool | None = None,
    checkpoints: list[Checkpoint] | None = None,
    **options: Any,
) -> list[BakedMotion]:
    """Play all motions of a character with one model; `supple.save` takes the list.

    Parameters
    ----------
    motions
        Motions, names or patterns such as ``"Idle*"``; by default all of the character's, or the
        wiggle if it has none.
    character, model, engine, simulation, progress, keep, checkpoints, **options
        As for `bake`, without `start` and `end`. A motion of a single key is not looped.
    """
    source = source_of(character)
    check_names("bake_all", {"start", "end"} & {*options}, ("motions", "rate", "loop"))
    request = BakeRequest.of("bake_all", source, model, engine, simulation, keep, options)
    chosen = chosen_motions(source.character, motions)
    if not chosen:
        raise SuppleError(f"{source.character.name}: no motion to bake; name one or more")
    plans = []
    for each in chosen:
        playing = request.playing | {"loop": request.playing["loop"] and each.duration > 0}
        plans.append(bake_plan(source.character, each, **playing, engine=request.live.name))
    return request.decided(plans).bake(plans, progress, checkpoints)
