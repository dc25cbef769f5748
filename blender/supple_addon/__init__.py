# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Supple in Blender: soft tissue for rigged characters, on a layer that can be removed.

The simulation runs in a separate process and environment, as the command `supple`.
"""

from __future__ import annotations

import bpy

from . import layers, looking, operators, panel, settings, setup

__all__ = ["register", "unregister"]

_CLASSES = (*operators.CLASSES, *looking.CLASSES, *setup.CLASSES, *panel.CLASSES)


def register() -> None:
    """Add operators, panels and preferences to Blender."""
    settings.register()
    for each in _CLASSES:
        bpy.utils.register_class(each)
    _listen()
    bpy.app.handlers.load_post.append(_listen)


@bpy.app.handlers.persistent
def _listen(*_: object) -> None:
    """Subscribe to assignments of actions; Blender drops subscriptions when it loads a file."""
    bpy.msgbus.clear_by_owner(_CLASSES)
    bpy.msgbus.subscribe_rna(
        key=(bpy.types.AnimData, "action"), owner=_CLASSES, args=(), notify=layers.follow_actions
    )


def unregister() -> None:
    """Remove operators, panels and preferences from Blender."""
    bpy.app.handlers.load_post.remove(_listen)
    bpy.msgbus.clear_by_owner(_CLASSES)
    for each in reversed(_CLASSES):
        bpy.utils.unregister_class(each)
    settings.unregister()
