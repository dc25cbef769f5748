"""What a free Saint Venant–Kirchhoff body's state says: where it is, its momenta and energies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.dynamics import stvk_free_solve as rows
from supple.dynamics.stvk_free_setup import roots_of
from supple.dynamics.stvk_readings import StvkReadings
from supple.dynamics.stvk_setup import checked_out
from supple.reduction.rigid_integrals import RigidMoments
from supple.reduction.stvk_model import StvkModel
from supple.rig.quaternions import to_matrix

__all__ = ["FreeStvkState"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class FreeStvkState(StvkReadings):
    """The readings of `FreeStvkSimulator`, which makes all that is here."""

    model: StvkModel
    _gravity: Floats
    _moments: RigidMoments
    _spin: Floats
    _surface_rest: Singles
    _surface_basis: Singles
    _local: Singles

    @property
    def root(self) -> Floats:
        """Rigid transform (4, 4) from the mesh's frame to the world: x = root (X + U q)."""
        flight = np.concatenate([self._spin[rows.CENTRE, :3], self._spin[rows.TURN]])
        return roots_of(flight[None], self._state[rows.POSITION][None], self._moments)[0]

    @property
    def gravity(self) -> Floats:
        """In m/s², (3,): a copy; another can be set while the body flies."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self._gravity[:] = checked_array("gravity", gravity, (3,))

    @property
    def mass(self) -> float:
        """In kg."""
        return self._moments.mass

    @property
    def centre(self) -> Floats:
        """Mass centre in the world, (3,)."""
        return self._spin[rows.CENTRE, :3].copy()

    @property
    def linear_velocity(self) -> Floats:
        """Its velocity, (3,) in m/s."""
        return self._spin[rows.LINEAR, :3] / self._moments.mass

    @property
    def angular_velocity(self) -> Floats:
        """That of the root in the world, (3,) in rad/s."""
        return self._turn() @ self._spin[rows.OMEGA, :3]

    @property
    def linear_momentum(self) -> Floats:
        """Of the whole body, (3,) in kg m/s."""
        return self._spin[rows.LINEAR, :3].copy()

    @property
    def angular_momentum(self) -> Floats:
        """Of the whole body about the world's origin, (3,) in kg m²/s."""
        own = self._spin[rows.ANGULAR, :3]
        return own + np.cross(self._spin[rows.CENTRE, :3], self._spin[rows.LINEAR, :3])

    def energies(self) -> dict[str, float]:
        """Kinetic energy of all motion, elastic energy, that of height, and their sum, in J."""
        moments, q, v = self._moments, self._state[rows.POSITION], self._state[rows.VELOCITY]
        linear, omega = self._spin[rows.LINEAR, :3], self._spin[rows.OMEGA, :3]
        kinetic = linear @ linear / (2 * moments.mass) + v @ moments.shape_mass @ v / 2
        kinetic += omega @ (moments.inertia_at(q) @ omega / 2 + moments.coupling_at(q) @ v)
        found = {
            "kinetic": float(kinetic),
            "elastic": self.model.energy(q),
            "gravity": -moments.mass * float(self._gravity @ self._spin[rows.CENTRE, :3]),
        }
        return found | {"total": sum(found.values())}

    def surface(self, out: Singles | None = None) -> Singles:
        """What is seen, in the world, (n̄, 3) float32: a new array, or `out`."""
        out = checked_out(out, self._surface_rest.shape)
        q = self._state[rows.POSITION].astype(np.float32)
        np.dot(self._surface_basis, q, out=self._local.reshape(-1))
        self._local += self._surface_rest
        np.dot(self._local, self._turn().T.astype(np.float32), out=out)
        out += self._spin[rows.CENTRE, :3].astype(np.float32)
        return out

    def _turn(self) -> Floats:
        """R, (3, 3)."""
        turn = np.empty((3, 3))
        to_matrix(self._spin[rows.TURN], turn)
        return turn
