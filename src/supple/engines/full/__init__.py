"""Unreduced engine: all tets; the reference for the others."""

from supple.engines.full.factory import FullSimulator
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.full.model import FullModel

__all__ = ["FullBodySimulator", "FullCharacterSimulator", "FullModel", "FullSimulator"]
