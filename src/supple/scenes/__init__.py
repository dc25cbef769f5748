"""Procedural bodies and characters, for the demonstration, the tests and the benchmarks."""

from supple.scenes.beam import beam

__all__ = ["beam"]
