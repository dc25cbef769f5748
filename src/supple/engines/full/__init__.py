"""The unreduced engine: all tets, the truth that others are compared with."""

from supple.engines.full.full_body import FullBodySimulator
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.full.model import FullModel
from supple.engines.full.simulator import FullSimulator

__all__ = ["FullBodySimulator", "FullCharacterSimulator", "FullModel", "FullSimulator"]
