"""Alembic: the skin as a polygon mesh with samples, through the optional package alembic3d."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.formats.caches.point_cache import checked_frames
from supple.rig.baked_motion import BakedMotion
from supple.saving import write_chunks


def write_abc(path: str | Path, baked: BakedMotion) -> dict[str, Any]:
    """Write an ``.abc`` file with one polygon mesh.

    Its points are the welded surface in the world, metres, +Y up (Blender turns that to its own
    upward axis when it imports), a sample at every baked frame. Faces are wound clockwise, as
    Alembic has it.

    Returns
    -------
    dict
        n_frames, n_points, bytes.
    """
    path = Path(path)
    frames = checked_frames(path, baked)
    try:
        import alembic3d  # noqa: F401
    except ImportError:
        raise SuppleError(
            f"{path.name}: Alembic files need an extra; run pip install 'supple[alembic]'"
        ) from None
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: cannot be written to {path.parent} (no such folder)")
    try:
        with tempfile.TemporaryDirectory(prefix="supple-abc-") as folder:
            # The library writes to the path itself as it goes: half a file, were it interrupted.
            part = Path(folder) / "part.abc"
            _write(part, baked, frames)
            with part.open("rb") as file:
                size = write_chunks(path, iter(lambda: file.read(2**24), b""))
    except (RuntimeError, OSError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(f"{path.name}: Alembic cannot write it ({why})") from error
    return {"n_frames": len(frames), "n_points": frames.shape[1], "bytes": size}


def _write(path: Path, baked: BakedMotion, frames: np.ndarray) -> None:
    import imath
    from alembic3d.Abc import OArchive
    from alembic3d.AbcCoreAbstract import TimeSampling
    from alembic3d.AbcGeom import OPolyMesh, OPolyMeshSchemaSample

    archive = OArchive(os.fspath(path))
    sampling = archive.addTimeSampling(TimeSampling(1 / baked.rate, float(baked.times[0])))
    mesh = OPolyMesh(archive.getTop(), _object_name(baked.character.name), sampling)
    schema = mesh.getSchema()
    triangles = baked.character.surface.triangles
    corners = imath.IntArrayFromBuffer(np.ascontiguousarray(triangles[:, ::-1], np.int32).ravel())
    counts = imath.IntArrayFromBuffer(np.full(len(triangles), 3, np.int32))
    for frame in frames:
        points = imath.V3fArrayFromBuffer(np.ascontiguousarray(frame))
        schema.set(OPolyMeshSchemaSample(points, corners, counts))
    # What holds the archive must go before the file is whole.
    del schema, mesh, archive


def _object_name(name: str) -> str:
    kept = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return kept or "character"
