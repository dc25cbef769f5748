"""Files of bone meshes, for bodies and hands in the layouts of SMPL and MANO."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple.errors import FormatError
from supple.formats.smpl.archive_fields import named_errors, read_fields
from supple.mesh.surface import SurfaceMesh
from supple.rig.tets.bone_meshes import BoneMeshes

FIELDS = ("vertices", "faces", "bone", "bone_names", "bone_joint")
MOST_BONES = 10_000


def read_bone_meshes(path: str | Path) -> BoneMeshes:
    """Read meshes of bones.

    Parameters
    ----------
    path
        ``.npz`` with ``vertices`` (n, 3) in m, for the rest pose; ``faces`` (m, 3); ``bone`` (n,)
        the bone of each vertex; ``bone_names`` (b,) strings; ``bone_joint`` (b,) the joint that
        each bone follows. Other fields are ignored. FormatError if it is not a file of bones.
    """
    path = Path(path)
    fields = read_fields(path, FIELDS)
    with named_errors(path.name):
        for name in FIELDS:
            if name not in fields or not isinstance(fields[name], np.ndarray):
                raise FormatError(f'has no array "{name}"; it is not a file of bones')
        names = fields["bone_names"]
        if names.ndim != 1 or names.dtype.kind != "U" or not 0 < len(names) <= MOST_BONES:
            raise FormatError(f'"bone_names" must be 1 to {MOST_BONES:,} strings')
        for name in ("faces", "bone", "bone_joint"):
            if fields[name].dtype.kind not in "iu":
                raise FormatError(f'"{name}" is {fields[name].dtype}; expected whole numbers')
        if fields["vertices"].dtype.kind != "f":
            raise FormatError(f'"vertices" is {fields["vertices"].dtype}; expected float')
        faces, bone, joint = (
            fields[name].astype(np.int64) for name in ("faces", "bone", "bone_joint")
        )
        surface = SurfaceMesh(fields["vertices"].astype(np.float64), faces)
        return BoneMeshes(surface, bone, tuple(str(name) for name in names), joint)
