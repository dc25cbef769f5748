"""Procedural bodies and characters, for the demonstration, the tests and the benchmarks."""

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
from supple.scenes.modelling.solids import ball, polygonise, smooth_union, tapered_limb

__all__ = [
    "SCENES",
    "STVK_SCENES",
    "Bone",
    "Contact",
    "ElasticScene",
    "Handle",
    "PaperRow",
    "Scene",
    "ball",
    "beam",
    "polygonise",
    "scene",
    "smooth_union",
    "starfish",
    "stvk_scene",
    "tapered_limb",
]
