# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators: long tasks are advanced by a timer, so that Blender stays usable.

Called from a script, they wait for the result: ``bpy.ops.supple.give_flesh()``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty

from .anatomy_colours import hide_anatomy
from .baking import CurveOptions, Step, Steps, finished, given_flesh, moved_curves
from .character import Character, Clip, Problem, active_action, clips_of, found_characters
from .clip_names import matching_names
from .curve_layers import owners, remove_curves
from .layers import clips_with_flesh, mute_flesh, muted, remove_flesh, show_flesh
from .settings import WHICH, command_of, settings_of

__all__ = ["CLASSES", "Working", "current_characters", "now_running"]

#: Seconds between calls of the timer, and largest duration of a call.
TICK, BUSY = 0.1, 0.05


class _Running:
    """Running task, which the panel shows and can cancel."""

    def __init__(self) -> None:
        self.step = Step(0.0, "starting")
        self.cancelled = False


_running: _Running | None = None


def now_running() -> _Running | None:
    """Return the running task, if any."""
    return _running


def current_characters(context: bpy.types.Context) -> list[Character]:
    """Return the characters of the selection, or of the active object if nothing is selected."""
    objects = [obj for obj in context.selected_objects if obj.type in ("MESH", "ARMATURE")]
    if not objects and context.active_object is not None:
        objects = [context.active_object]
    characters = found_characters(context, objects)
    chosen = [settings_of(each.armature).only_selected for each in characters]
    if any(chosen):
        only = {c.armature: c for c in found_characters(context, objects, only=True)}
        characters = [
            only[c.armature] if chose else c for c, chose in zip(characters, chosen, strict=True)
        ]
    return characters


def reported(operator: bpy.types.Operator, act: Callable[[], Any]) -> set[str]:
    """Call a function; report a Problem as an error, and cancel the operator."""
    try:
        act()
    except Problem as problem:
        operator.report({"ERROR"}, str(problem))
        return {"CANCELLED"}
    return {"FINISHED"}


class Working:
    """Operator with long `steps`: modal in the interface, blocking in scripts."""

    #: Message after the user has cancelled it.
    ended = "Supple was cancelled; nothing is changed"

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        """Do the work in steps, and return a message for the user."""
        raise NotImplementedError

    def execute(self, context: bpy.types.Context) -> set[str]:
        return reported(self, lambda: self.report({"INFO"}, finished(self.steps(context))))

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        global _running
        if _running is not None:
            self.report({"ERROR"}, f"Supple is busy: {_running.step.what}")
            return {"CANCELLED"}
        try:
            self._steps = self.steps(context)
        except Problem as problem:
            self.report({"ERROR"}, str(problem))
            return {"CANCELLED"}
        _running = _Running()
        self._timer = context.window_manager.event_timer_add(TICK, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        if event.type != "TIMER":
            return {"PASS_THROUGH"}
        if _running is None or _running.cancelled:
            self._end(context)
            self.report({"INFO"}, self.ended)
            return {"CANCELLED"}
        try:
            _running.step = self._advance()
        except StopIteration as stop:
            self._end(context)
            self.report({"INFO"}, stop.value)
            return {"FINISHED"}
        except Problem as problem:
            self._end(context)
            self.report({"ERROR"}, str(problem))
            return {"CANCELLED"}
        except Exception as error:  # the timer must be removed after any error
            self._end(context)
            self.report({"ERROR"}, f"Supple: {type(error).__name__}: {error}")
            return {"CANCELLED"}
        step = _running.step
        context.workspace.status_text_set(f"Supple: {step.what}, {100 * step.part:.0f} %")
        _redraw(context)
        return {"PASS_THROUGH"}

    def cancel(self, context: bpy.types.Context) -> None:
        self._end(context)

    def _advance(self) -> Step:
        began = time.monotonic()
        while True:
            step = next(self._steps)
            if step.waits or time.monotonic() - began > BUSY:
                return step

    def _end(self, context: bpy.types.Context) -> None:
        global _running
        _running = None
        self._steps.close()
        context.window_manager.event_timer_remove(self._timer)
        context.workspace.status_text_set(None)
        _redraw(context)


def _redraw(context: bpy.types.Context) -> None:
    for area in context.screen.areas if context.screen else ():
        if area.type == "VIEW_3D":
            area.tag_redraw()


class SUPPLE_OT_give_flesh(Working, bpy.types.Operator):
    """Simulate soft tissue of the selected characters; earlier flesh is replaced"""

    bl_idname = "supple.give_flesh"
    bl_label = "Give Flesh"
    bl_options = {"UNDO"}  # noqa: RUF012 - as Blender requires

    which: EnumProperty(
        name="Clips",
        items=(("OWN", "As Set", "As set for each character"), *WHICH),
        default="OWN",
        options={"SKIP_SAVE"},
    )

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        characters, command = current_characters(context), command_of(context)
        queue = []
        for character in characters:
            settings = settings_of(character.armature)
            which = settings.which if self.which == "OWN" else self.which
            clips = clips_of(context, character, which, settings.loop)
            queue.append((character, clips, settings.options()))
        return self._queue(context, command, queue)

    def _queue(self, context: bpy.types.Context, command: str, queue: list[Any]) -> Steps[str]:
        messages = []
        for number, (character, clips, options) in enumerate(queue):
            name = character.name
            work = given_flesh(context, command, character, clips, options)
            figures = yield from _of_many(work, number, len(queue))
            for each in figures:
                for line in each["warnings"]:
                    self.report({"WARNING"}, f"{name}: {line}")
            names = ", ".join(clip.name for clip in clips[:3]) + (" …" if len(clips) > 3 else "")
            messages.append(f"{name}: {names}: {_summary(figures)}")
        return "; ".join(messages)


def _summary(figures: list[dict[str, Any]]) -> str:
    """Describe runs of the command: shapes that were added, and how far flesh moves and where."""
    added = sum(each["added"] for each in figures)
    off = max((each.get("error") or 0 for each in figures), default=0)
    summary = f"{added} shapes, within {100 * off:.2f} % of the size"
    calm = "flesh hardly moves; try a livelier clip, softer flesh or a smaller Error"
    names = {"flesh_moves": "flesh ", "flesh_truth": ""}
    moves = [f"{names[key]}{each[key]}" for each in figures for key in names if key in each]
    if not added and moves:
        return "; ".join(moves)
    return "; ".join([summary if added else calm, *moves])


def _of_many(steps: Steps[Any], number: int, count: int) -> Steps[Any]:
    """Yield the steps of one of several tasks; `part` becomes the fraction done of all tasks."""
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            return stop.value
        try:
            yield Step((number + step.part) / count, step.what, step.waits)
        except GeneratorExit:
            steps.close()
            raise


class SUPPLE_OT_curves(Working, bpy.types.Operator):
    """Simulate chosen bones and shape keys, as keyframes on a separate layer"""

    bl_idname = "supple.curves"
    bl_label = "Make Curves"
    bl_options = {"UNDO"}  # noqa: RUF012

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        character, command = current_characters(context)[0], command_of(context)
        settings = settings_of(character.armature)
        which = "SCENE" if settings.which == "SCENE" else "ACTION"
        clip = clips_of(context, character, which, settings.loop)[0]
        free = [word.strip() for word in settings.free.split(",") if word.strip()]
        if not free:  # selected bones; without any, Supple chooses
            free = [bone.name for bone in context.selected_pose_bones or ()]
        return self._moved(context, command, character, clip, settings.curve_options(free))

    def _moved(
        self,
        context: bpy.types.Context,
        command: str,
        character: Character,
        clip: Clip,
        curves: CurveOptions,
    ) -> Steps[str]:
        name = character.name
        options = settings_of(character.armature).options()
        figures = yield from moved_curves(context, command, character, clip, curves, options)
        for line in figures["warnings"]:
            self.report({"WARNING"}, f"{name}: {line}")
        return f"{name}: {clip.name}: {figures['added']} curves"


class SUPPLE_OT_cancel(bpy.types.Operator):
    """Cancel the running task; nothing is changed"""

    bl_idname = "supple.cancel"
    bl_label = "Cancel"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return _running is not None

    def execute(self, context: bpy.types.Context) -> set[str]:
        if _running is not None:
            _running.cancelled = True
        return {"FINISHED"}


class SUPPLE_OT_remove(bpy.types.Operator):
    """Remove all flesh from the selected characters, which restores the original file"""

    bl_idname = "supple.remove"
    bl_label = "Remove"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    def execute(self, context: bpy.types.Context) -> set[str]:
        return reported(self, lambda: self._remove(context))

    def _remove(self, context: bpy.types.Context) -> None:
        meshes = [obj for each in current_characters(context) for obj in each.meshes]
        removed = remove_flesh(meshes)
        for character in current_characters(context):
            removed += sum(remove_curves(owner) for owner in owners(character))
        hide_anatomy(meshes)
        if not removed:
            raise Problem("There is no flesh to remove")
        context.view_layer.update()


class SUPPLE_OT_mute(bpy.types.Operator):
    """Hide or show the flesh of the selected characters"""

    bl_idname = "supple.mute"
    bl_label = "Mute"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012

    clip: bpy.props.StringProperty(
        name="Clip", description="Name, its last words, or a pattern", options={"SKIP_SAVE"}
    )
    shown: BoolProperty(name="Shown", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        return reported(self, lambda: self._mute(context))

    def _mute(self, context: bpy.types.Context) -> None:
        for character in current_characters(context):
            clips = clips_with_flesh(character.meshes)
            if not clips:
                continue
            show = (
                self.shown if self.properties.is_property_set("shown") else muted(character.meshes)
            )
            action = active_action(character.armature)
            playing = action.name if action else ""
            matches = matching_names(clips, self.clip)
            if len(matches) > 1:
                listed = ", ".join(f'"{name}"' for name in matches[:12])
                raise Problem(f'"{self.clip}" matches {listed}; give one name in full')
            clip = matches[0] if matches else playing if playing in clips else clips[-1]
            show_flesh(character.meshes, clip if show else None)
            mute_flesh(character.meshes, not show)
        context.scene.frame_set(context.scene.frame_current, subframe=context.scene.frame_subframe)


CLASSES = (
    SUPPLE_OT_give_flesh,
    SUPPLE_OT_curves,
    SUPPLE_OT_cancel,
    SUPPLE_OT_remove,
    SUPPLE_OT_mute,
)
