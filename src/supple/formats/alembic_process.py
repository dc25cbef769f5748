"""The process that reads Alembic: a file in, the points of its meshes out.

The library crashes on some damaged files, so that a separate process opens each file. It runs this
module as a script, and imports nothing else of Supple.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Exit code of a file that is refused, with the reason on the standard error.
REFUSED = 3
#: Largest size of the points relative to that of the file, of at least 1 MiB, and the memory of the
#: process in bytes, without the points.
MOST_GROWTH, MEMORY = 64, 3 * 2**30
#: Transforms and objects below one another, and objects in all.
DEEPEST, MOST_OBJECTS = 200, 100_000


class _RefusedError(Exception):
    pass


class _Mesh:
    """A mesh with the schemas of the transforms above it, the innermost first."""

    def __init__(self, schema: Any, transforms: tuple[Any, ...]) -> None:
        self.schema, self.transforms = schema, transforms

    @property
    def sampled(self) -> list[Any]:
        """Schemas with more than one sample."""
        return [each for each in (self.schema, *self.transforms) if each.getNumSamples() > 1]

    def points(self, time: float) -> NDArray[np.float32]:
        """Return the points (n, 3) in the world at a time in s."""
        from alembic3d.Abc import ISampleSelector

        when = ISampleSelector(time)  # the nearest sample
        points = np.array(memoryview(self.schema.getValue(when).getPositions()), np.float64)
        for each in self.transforms:
            matrix = each.getValue(when).getMatrix()
            place = np.array([[matrix[i][j] for j in range(4)] for i in range(4)])
            points = points @ place[:3, :3] + place[3, :3]
        return points.astype(np.float32)


def main(path: str, answer: str, size: int) -> None:
    """Write the frames (t, n, 3) and times (t,) of a file to an .npz."""
    from alembic3d.Abc import IArchive

    meshes: list[_Mesh] = []
    _find_meshes(IArchive(path).getTop(), (), meshes, [0])
    if not meshes:
        raise _RefusedError("has no polygon mesh; export the baked mesh")
    sampled = [each for mesh in meshes for each in mesh.sampled]
    counts = {each.getNumSamples() for each in sampled} or {1}
    if len(counts) > 1:
        raise _RefusedError("has meshes with different numbers of samples; export the baked mesh")
    sampling = (sampled or [meshes[0].schema])[0].getTimeSampling()
    first = [mesh.points(float(sampling.getSampleTime(0))) for mesh in meshes]
    shape = counts.pop(), sum(map(len, first)), 3
    if 12 * shape[0] * shape[1] > MOST_GROWTH * max(size, 2**20):
        raise _RefusedError("expands to far more than its size; it is damaged")
    times = np.array([float(sampling.getSampleTime(k)) for k in range(shape[0])])
    frames = np.empty(shape, np.float32)
    for frame, time in zip(frames, times.tolist(), strict=True):
        parts = [mesh.points(time) for mesh in meshes]
        if [len(each) for each in parts] != [len(each) for each in first]:
            raise _RefusedError("changes its number of points; export one topology")
        np.concatenate(parts, out=frame)
    np.savez(answer, frames=frames, times=times)


def _find_meshes(
    node: Any, transforms: tuple[Any, ...], found: list[_Mesh], visited: list[int]
) -> None:
    """Collect the meshes and subdivision surfaces below a node."""
    from alembic3d.AbcGeom import IPolyMesh, ISubD, IXform

    if len(transforms) > DEEPEST:
        raise _RefusedError("is nested too deeply; export the baked mesh")
    for k in range(node.getNumChildren()):
        visited[0] += 1
        if visited[0] > MOST_OBJECTS:
            raise _RefusedError("has too many objects; export the baked mesh alone")
        child, header, above = node.getChild(k), node.getChildHeader(k), transforms
        for kind in (IPolyMesh, ISubD):
            if kind.matches(header):
                schema = kind(node, header.getName()).getSchema()
                if schema.getNumSamples():
                    found.append(_Mesh(schema, transforms))
        if IXform.matches(header):
            schema = IXform(node, header.getName()).getSchema()
            inherits = schema.getInheritsXforms()
            above = (schema, *transforms) if inherits else (schema,)
        _find_meshes(child, above, found, visited)


def _limit_resources(size: int) -> None:
    try:
        import resource

        memory = MEMORY + 3 * MOST_GROWTH * max(size, 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # not POSIX, or a lower limit is set already


if __name__ == "__main__":
    sys.path[:0] = [entry for entry in sys.argv[4:] if entry not in sys.path]
    try:
        _limit_resources(int(sys.argv[3]))
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except _RefusedError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
