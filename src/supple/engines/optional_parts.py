"""Protocols of parts that only some engines have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # commands list engines without importing NumPy and Numba
    from numpy.typing import ArrayLike

    from supple.arrays import Floats, Ints, Singles


@runtime_checkable
class FreeParameters(Protocol):
    """Optional part of a character engine: rig parameters that physics moves."""

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the free parameters."""

    @property
    def parameters(self) -> Floats:
        """Current pose of the rig, (s,), with the simulated values of the free parameters."""


@runtime_checkable
class ParameterSprings(Protocol):
    """Optional part of a character engine: springs of each free parameter, set between steps."""

    @property
    def springs(self) -> Any:
        """Settings of each free parameter, (k,): `follow`, `firmness`, `damping`."""

    def tune(self, *, follow: Any = None, firmness: Any = None, damping: Any = None) -> None:
        """Change settings: a number, one per parameter, or numbers by name; None for no change."""


@runtime_checkable
class LocalStiffness(Protocol):
    """Optional part of a character engine: local stiffness."""

    @property
    def local_stiffness(self) -> Floats | None:
        """Factors on the stiffness of each of the model's tets, (T,); may be set between steps."""


@runtime_checkable
class LocalDamping(Protocol):
    """Optional part of a character engine: damping that changes at run time, also by region."""

    @property
    def local_damping(self) -> Floats | None:
        """Factors on β of each of the model's tets, (T,); may be set between steps."""

    @property
    def damping(self) -> tuple[float, float]:
        """Rayleigh damping α in 1/s and β in s; may be set between steps."""


@runtime_checkable
class Resumable(Protocol):
    """Optional part of a character engine: a state from which it resumes."""

    def state(self) -> dict[str, Floats]:
        """Return copies of all arrays that later steps depend on, by name."""

    def resume(self, state: Mapping[str, ArrayLike]) -> None:
        """Continue from a state that `state` returned, with the same bits."""


@runtime_checkable
class RigidObjects(Protocol):
    """Optional part of an engine: rigid objects that the flesh pushes."""

    @property
    def objects(self) -> Sequence[Any]:
        """Rigid objects; may be set between steps."""


@runtime_checkable
class ContactReadings(Protocol):
    """Optional part of a character engine: forces and pressures of contacts."""

    @property
    def colliders(self) -> tuple[str, ...]:
        """Names of the colliders, in the order of the contacts' indices."""

    def contacts(self) -> Any:
        """Return points, positions, forces in N, pressures in Pa and colliders of the last step."""

    def pressure(self) -> Floats:
        """Return the pressure on the skin in the last step, (n̄,) in Pa."""


@runtime_checkable
class SoftContact(ContactReadings, Protocol):
    """Optional part of a character engine: bones on springs that contact moves."""

    @property
    def model(self) -> Any:
        """Model that is stepped, a `CharacterModel` with `bones`, their names, and `masses`."""

    @property
    def tracking(self) -> float:
        """Frequency in Hz of the springs to the pose, 0 for none; may be set between steps.

        Setting it sets `strength` to 0.
        """

    @property
    def strength(self) -> float:
        """Lower bound of the springs' stiffness, N m/rad per kg; may be set between steps."""

    @property
    def root_mode(self) -> str:
        """``"driven"``, ``"tracked"`` or ``"free"``; may be set between steps."""

    @property
    def gravity(self) -> Floats:
        """Gravity (3,) in m/s²; may be set between steps."""

    @property
    def friction(self) -> float:
        """Coefficient of friction; may be set between steps."""

    @property
    def owners(self) -> Ints:
        """(n̄,) index in `model.bones` of the bone with the largest weight at each skin vertex."""

    def unposed(self) -> Floats:
        """Return displacements (n̄, 3) of the flesh at the skin before bones move it, in m."""


class Crowd(Protocol):
    """Optional part of an engine: many characters of one model, stepped in one call."""

    def step(self, poses: ArrayLike, roots: ArrayLike | None = None) -> Any:
        """Advance all characters by one step."""

    def surfaces(self, out: Singles | None = None) -> Singles:
        """Return all skins, (k, n̄, 3) float32."""
