"""Parts that only some engines have, by protocol: the viewer and others ask for these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # commands list engines, and should not wait for NumPy and Numba
    from numpy.typing import ArrayLike

    from supple.arrays import Floats, Ints, Singles


@runtime_checkable
class FreeParameters(Protocol):
    """Optional part of a character engine: rig parameters that physics moves."""

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the parameters that are free."""

    @property
    def parameters(self) -> Floats:
        """Pose of the rig now, (s,): the free parameters as physics has them."""


@runtime_checkable
class ParameterSprings(Protocol):
    """Optional part of a character engine: springs of each free parameter, set between steps."""

    @property
    def springs(self) -> Any:
        """Numbers of each free parameter, (k,): `follow`, `firmness`, `damping`."""

    def tune(self, *, follow: Any = None, firmness: Any = None, damping: Any = None) -> None:
        """Change them: a number, one for each, or numbers by name; None for no change."""


@runtime_checkable
class LocalStiffness(Protocol):
    """Optional part of a character engine: stiffness that changes from place to place."""

    @property
    def local_stiffness(self) -> Floats | None:
        """Factors on the stiffness of each of the model's tets, (T,); to be set between steps."""


@runtime_checkable
class Resumable(Protocol):
    """Optional part of a character engine: a state that it can go on from."""

    def state(self) -> dict[str, Floats]:
        """Return all that later steps depend on, to the bit."""

    def resume(self, state: Mapping[str, ArrayLike]) -> None:
        """Go on from such a state."""


@runtime_checkable
class RigidObjects(Protocol):
    """Optional part of an engine: rigid objects that the flesh pushes."""

    @property
    def objects(self) -> Sequence[Any]:
        """The objects; to be set between steps."""


@runtime_checkable
class SoftContact(Protocol):
    """Optional part of a character engine: bones that follow by springs, skin that feels."""

    @property
    def model(self) -> Any:
        """Model that is stepped, a `CharacterModel` with `bones`, their names, and `masses`."""

    @property
    def tracking(self) -> float:
        """Frequency in Hz of the springs to the pose, 0 for none; to be set between steps."""

    @property
    def root_mode(self) -> str:
        """``"driven"``, ``"tracked"`` or ``"free"``; to be set between steps."""

    @property
    def gravity(self) -> Floats:
        """(3,) in m/s²; to be set between steps."""

    @property
    def friction(self) -> float:
        """Coefficient of friction; to be set between steps."""

    @property
    def colliders(self) -> tuple[str, ...]:
        """Names of the colliders, in the order of the contacts' indices."""

    @property
    def owners(self) -> Ints:
        """(n̄,) bone that each vertex of the skin goes with most, a number in `model.bones`."""

    def contacts(self) -> Any:
        """Return points, places, forces in N, pressures in Pa and colliders of the last step."""

    def pressure(self) -> Floats:
        """(n̄,) on the skin in the last step, Pa."""

    def unposed(self) -> Floats:
        """(n̄, 3) displacement of the flesh before bones move it, in m."""


class Crowd(Protocol):
    """Optional part of an engine: many characters of one model, stepped in one call."""

    def step(self, poses: ArrayLike, roots: ArrayLike | None = None) -> Any:
        """Advance all of them."""

    def surfaces(self, out: Singles | None = None) -> Singles:
        """Return all skins, (k, n̄, 3) float32."""
