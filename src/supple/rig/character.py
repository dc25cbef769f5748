"""A character: a surface, the rig that moves it, and its motions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import MeshError
from supple.maths.rotations import exponential, to_matrix
from supple.mesh.appearance import Appearance
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_names import one_name
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.protocol import Rig

if TYPE_CHECKING:
    from supple.rig.tets.tet_body import TetBody

Part = TypeVar("Part")

#: Name of the default motion of characters without motions; its duration in seconds and rate.
WIGGLE = "wiggle"
SECONDS, RATE = 3.0, 30
#: Amplitude of the default motion's shaking, relative to the size, and its frequency in Hz.
SHAKEN, SHAKES = 0.05, 2.5
#: Amplitude of the default motion's tilting in radians, and its frequency in Hz.
TILTED, TILTS = 0.2, 1.5


class _Needed(Generic[Part]):
    """Field that raises an error with the reason when it is read while None.

    Files without a mesh are still useful, for their motions and for `supple info`.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._slot = name, f"_{name}"

    @overload
    def __get__(self, character: None, owner: type) -> Part: ...
    @overload
    def __get__(self, character: Any, owner: type) -> Part: ...
    def __get__(self, character: Any, owner: type) -> Part:
        if character is None:
            raise AttributeError(self._name)  # so that a dataclass finds no default
        part = getattr(character, self._slot)
        if part is None:
            raise MeshError(f"{character.name}: has no mesh, and so no {self._name}")
        return part

    def __set__(self, character: Any, part: Part | None) -> None:
        object.__setattr__(character, self._slot, part)


@dataclass(frozen=True, eq=False, repr=False)
class Character:
    """A surface mesh with a rig and motions.

    Parameters
    ----------
    name : str
        Usually the name of the file, without suffix.
    surface : SurfaceMesh
        The rest pose of the rig, welded, in metres, without root motion. None for a character
        without a mesh; reading it is then an error.
    rig : Rig
        None for a character without a mesh; reading it is then an error.
    motions : dict of str to Motion
        By name, in the file's order.
    source : object
        Map from surface vertices to the file; its class depends on the format.
    metres_per_unit : float
        Factor by which lengths of the file were multiplied.
    warnings : tuple of str
        Problems of the file, one line each.
    labels : dict of str to (k,) int array
        Surface vertices by the names that the file has for them: ``"material:Hooves"``,
        ``"mesh:Body"``.
    painted : dict of str to (n̄,) array
        Maps that an artist painted on the skin: ``"rigid"`` and ``"flesh"``, 0 to 1, and
        ``"stiffness"``, a factor. Vertices without paint have 0, or 1 for factors.
    appearance : Appearance
        Colours of the surface's triangles; None if the file has none.
    """

    name: str
    surface: _Needed[SurfaceMesh] = _Needed()
    rig: _Needed[Rig] = _Needed()
    motions: dict[str, Motion] = field(default_factory=dict)
    source: Any = None
    metres_per_unit: float = 1.0
    warnings: tuple[str, ...] = ()
    labels: dict[str, Ints] = field(default_factory=dict)
    painted: dict[str, Floats] = field(default_factory=dict)
    appearance: Appearance | None = None

    def __repr__(self) -> str:
        motions = counted(len(self.motions), "motion")
        if not self.has_mesh:
            return f'Character("{self.name}", no mesh, {motions})'
        return f'Character("{self.name}", {self.surface!r}, {motions})'

    @property
    def has_mesh(self) -> bool:
        """True if there is a surface, and with it a rig."""
        return getattr(self, "_surface", None) is not None

    def motion(self, name: str) -> Motion:
        """Return the motion that matches a name.

        Parameters
        ----------
        name
            The whole name, else the part after its last ``|``, else either ignoring case, else the
            last words (``"Run"`` for ``"RatArmature|Rat_Run"``), else a pattern such as
            ``"*walk*"``; see `supple.rig.motion.motion_names.matching_names`.

        Raises
        ------
        SuppleError
            If it matches no motion, or several; the message lists the matches or similar names.
        """
        return self.motions[one_name(self.motions, name, self.name)]

    def sampled_poses(self, rate: float = 12.0) -> Floats:
        """Sample the poses of all motions, `rate` a second, the rest pose first: (k, s)."""
        sampled = [np.asarray(self.rig.rest_pose, np.float64)[None]]
        for motion in self.motions.values():
            frames = max(2, round(rate * motion.duration)) if motion.n_frames > 1 else 1
            times = np.linspace(motion.times[0], motion.times[-1], frames)
            sampled.append(np.stack([motion.at(time)[0] for time in times]))
        return np.concatenate(sampled)

    def fit_tet_body(
        self,
        poses: int | ArrayLike = 6,
        *,
        tets: int | TetMesh = 12_000,
        most_added: int = 24,
        progress: Callable[[float, str], None] | None = None,
        **options: Any,
    ) -> TetBody:
        """Fill the character with tets that follow its rig.

        Parameters
        ----------
        poses
            (m, s) example poses of the fit; or their number, to be chosen from the motions far from
            each other.
        tets
            Number of tets, or tets that fill the surface.
        most_added
            Most poses that are added where motions would invert tets between the example poses.
        progress
            Called with the completed fraction, 0 to 1, and a description.
        **options
            `bones`, `bone_radius`, `variant`, `gamma` and `names`, as for
            `supple.rig.fit_tet_body`.

        Raises
        ------
        SuppleError
            If the surface cannot be filled, or tets stay inverted at an example pose.
        """
        from supple.rig.tets.fitting import GAMMA
        from supple.rig.tets.tet_body import fit_tet_body, with_poses_between

        report = progress or (lambda part, what: None)
        frames = self.sampled_poses()
        if isinstance(poses, Integral):
            poses = frames[farthest_poses(self.rig, frames, int(poses))]
        body = fit_tet_body(
            self.surface,
            self.rig,
            poses,
            tets=tets,
            progress=lambda part, what: report(0.6 * part, what),
            **options,
        )
        tet_rig = with_poses_between(
            body.tet_rig,
            self.surface,
            frames,
            most=most_added,
            gamma=options.get("gamma", GAMMA),
            progress=lambda part, what: report(0.6 + 0.4 * part, what),
        )
        return replace(body, tet_rig=tet_rig)


def wiggle(character: Character) -> Motion:
    """Return the default motion: the root shakes sideways, tilts about the middle, then rests."""
    surface = character.surface
    times = np.arange(round(SECONDS * RATE) + 1) / RATE
    shaken = SHAKEN * surface.size * _pulse(times, 0.0, 1.4) * np.sin(2 * np.pi * SHAKES * times)
    tilted = TILTED * _pulse(times, 1.2, 2.5) * np.sin(2 * np.pi * TILTS * (times - 1.2))
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, :3, :3] = to_matrix(exponential(tilted[:, None] * [0.0, 0.0, 1.0]))
    middle = 0.5 * (surface.vertices.min(axis=0) + surface.vertices.max(axis=0))
    roots[:, :3, 3] = middle - roots[:, :3, :3] @ middle
    roots[:, 0, 3] += shaken
    poses = np.tile(np.asarray(character.rig.rest_pose, np.float64), (len(times), 1))
    return Motion(times, poses, roots, WIGGLE)


def _pulse(times: Floats, start: float, stop: float) -> Floats:
    """Return a pulse (t,) from 0 to 1 and back to 0 between two times, with continuous velocity."""
    return np.sin(np.pi * np.clip((times - start) / (stop - start), 0, 1)) ** 2
