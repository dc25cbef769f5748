"""Procedural bodies and characters, for the demonstration, the tests and the benchmarks."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.scenes.bodies.beam import beam
    from supple.scenes.bodies.elastic_scene import STVK_SCENES, ElasticScene, stvk_scene
    from supple.scenes.bodies.starfish import starfish
    from supple.scenes.characters.character_scene import (
        SCENES,
        Bone,
        Contact,
        Handle,
        PaperRow,
        Scene,
        scene,
    )
    from supple.scenes.contact.contact_scene import (
        CONTACT_SCENES,
        ContactRecord,
        ContactScene,
        contact_scene,
    )
    from supple.scenes.modelling.solids import ball, polygonise, smooth_union, tapered_limb

__all__ = [
    "CONTACT_SCENES",
    "SCENES",
    "STVK_SCENES",
    "Bone",
    "Contact",
    "ContactRecord",
    "ContactScene",
    "ElasticScene",
    "Handle",
    "PaperRow",
    "Scene",
    "ball",
    "beam",
    "contact_scene",
    "polygonise",
    "scene",
    "smooth_union",
    "starfish",
    "stvk_scene",
    "tapered_limb",
]

__getattr__ = lazy_imports(__name__)
