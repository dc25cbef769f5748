"""Procedural bodies and characters, for the demonstration, the tests and the benchmarks."""

from supple.scenes.beam import beam
from supple.scenes.character_scene import SCENES, Bone, Contact, Handle, PaperRow, Scene, scene
from supple.scenes.elastic_scene import STVK_SCENES, ElasticScene, stvk_scene
from supple.scenes.modelling import ball, polygonise, smooth_union, tapered_limb
from supple.scenes.starfish import starfish

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
