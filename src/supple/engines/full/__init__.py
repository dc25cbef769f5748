"""The unreduced engine: all tets, the truth that others are compared with."""

from supple.engines.full.full_body import FullSimulator

__all__ = ["FullSimulator"]
