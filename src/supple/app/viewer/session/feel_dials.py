"""Damping and swing of a character's flesh, as set on a page and stored in anatomy files."""

from __future__ import annotations

from typing import Any

from supple.anatomy.region_entries import FEEL_LIMITS
from supple.app.viewer.session.character_actor import CharacterActor
from supple.errors import SuppleError
from supple.playback.feel.feel import with_preset
from supple.playback.swing.goals import swing_goals


class FeelDials:
    """Damping and swing of an actor; the swing is a fraction of the size."""

    def __init__(self, actor: CharacterActor) -> None:
        self._actor, self.part = actor, 0.03
        self._found: float | None = None  # stiffness at which flesh swings by `part`

    @property
    def damping(self) -> float:
        """Factor on the damping of the flesh."""
        return float(self._actor.flesh["damping"])

    @property
    def preset(self) -> str:
        """Preset of stiffness and damping; setting it needs no build."""
        return str(self._actor.flesh["flesh"])

    @preset.setter
    def preset(self, name: str) -> None:
        actor, presets = self._actor, (self.preset, name)
        regions = None if actor.anatomy is None else actor.anatomy.anatomy
        feel = with_preset(actor.feel, presets, actor.character, actor.model, regions)
        actor.take_preset(name, feel)

    @property
    def percent(self) -> float:
        """Swing in percent of the size."""
        return 100 * self.part

    @percent.setter
    def percent(self, percent: float) -> None:
        self.part, self._found = percent / 100, None

    def swing(self) -> None:
        """Find the stiffness at which flesh swings by `part` in the current motion, and set it."""
        self._actor.swing(swing_goals(self._actor.character, self.part))
        self._found = self._actor.factor

    def file_feel(self) -> dict[str, Any]:
        """Return the feel of all flesh for an anatomy file, see `read_feel`.

        The file's swing is kept if the stiffness is unchanged. Raises SuppleError for a stiffness
        outside the range of anatomy files.
        """
        actor = self._actor
        kept = {} if actor.anatomy is None else actor.anatomy.feel
        stiffness = float(f"{kept.get('stiffness', 1.0) * actor.factor:.4g}")
        low, high = FEEL_LIMITS["stiffness"]
        if not low <= stiffness <= high:
            raise SuppleError(
                f"the flesh is {stiffness:g} times as stiff as its preset; anatomy files hold "
                f"{low:g} to {high:g}: change the stiffness, or begin with another preset"
            )
        factors = {"stiffness": stiffness, "damping": round(self.damping, 4)}
        feel: dict[str, Any] = {name: value for name, value in factors.items() if value != 1}
        if actor.flesh["flesh"] != "normal":
            feel["flesh"] = actor.flesh["flesh"]
        if self._found == actor.factor:
            feel["swing"] = [f"{self.percent:.3g}%"]
        elif "swing" in kept and actor.factor == 1:
            feel["swing"] = kept["swing"]
        return feel
