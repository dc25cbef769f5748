"""Roles of parts of a body, and their flesh shares."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Flesh share φ of each role: flesh deeper than φ times the thickness is bone.
ROLES = {
    "prop": 0.0,
    "horn": 0.0,
    "hand": 0.0,
    "foot": 0.0,
    "end": 0.0,
    "head": 0.15,
    "fin": 0.4,
    "forearm": 0.45,
    "shin": 0.45,
    "ear": 0.5,
    "neck": 0.6,
    "limb": 0.65,
    "tail": 0.75,
    "trunk": 0.85,
    "soft": 1.0,
}


#: Below this share a part is rigid.
HARD = 0.3


@dataclass
class RegionRole:
    """Role of one region, a name of `ROLES`, with reasons of one line each.

    `own_share` is φ if it differs from that of the role, as for a hand alone.
    """

    role: str = "limb"
    reasons: list[str] = field(default_factory=list)
    own_share: float | None = None

    def say(self, role: str, reason: str) -> None:
        """Change the role, with a reason."""
        self.role = role
        self.reasons.append(reason)

    @property
    def share(self) -> float:
        """Flesh share φ."""
        return ROLES[self.role] if self.own_share is None else self.own_share
