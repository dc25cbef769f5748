"""Procedural bodies and characters, for the demonstration, the tests and the benchmarks."""

from supple.scenes.beam import beam
from supple.scenes.modelling import ball, polygonise, smooth_union, tapered_limb
from supple.scenes.starfish import starfish

__all__ = ["ball", "beam", "polygonise", "smooth_union", "starfish", "tapered_limb"]
