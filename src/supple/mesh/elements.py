"""Meshes of volume elements: the base of tet and hexahedral meshes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MeshError
from supple.mesh import topology
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import Bounded, Defect, counted


class ElementMesh(Bounded, ABC):
    """Vertices, elements and named sets of elements, in checked arrays.

    A subclass defines the name of its elements, which is also their field, the corners of a face
    (counterclockwise from outside a positive element), and the mirrored corner order. Its fields
    are its constructor's arguments, so that `dataclasses.replace` works.
    """

    sets: dict[str, np.ndarray]

    noun: ClassVar[str]
    plural: ClassVar[str]
    faces: ClassVar[np.ndarray]
    mirrored: ClassVar[np.ndarray]

    def __init__(
        self, vertices: ArrayLike, elements: ArrayLike, sets: Mapping[str, ArrayLike] | None = None
    ) -> None:
        points = topology.checked_vertices(vertices)
        names = self.noun, self.plural
        corners = topology.checked_elements(elements, len(self.mirrored), len(points), *names)
        named = {
            str(name): _checked_set(str(name), members, len(corners), *names)
            for name, members in (sets or {}).items()
        }
        object.__setattr__(self, "vertices", points)
        object.__setattr__(self, self.plural, corners)
        object.__setattr__(self, "sets", named)

    def __repr__(self) -> str:
        vertices = counted(len(self.vertices), "vertex", "vertices")
        elements = counted(len(self.elements), self.noun, self.plural)
        return f"{type(self).__name__}({vertices}, {elements})"

    @property
    def elements(self) -> np.ndarray:
        """Vertices of each element, (m, corners)."""
        corners: np.ndarray = getattr(self, self.plural)
        return corners

    @abstractmethod
    def volumes(self) -> np.ndarray:
        """Return the volume of each element, (m,), negative if it is inverted."""

    @abstractmethod
    def boundary(self) -> np.ndarray:
        """Return triangles of the boundary, outward oriented, (k, 3)."""

    @abstractmethod
    def _shape_defects(self) -> Iterator[Defect]:
        """List defects of the shape of elements."""

    def _boundary_faces(self) -> np.ndarray:
        """Return the faces that belong to one element only, outward oriented."""
        faces = self.elements[:, self.faces]
        inverted = self.volumes() < 0
        faces[inverted] = faces[inverted][:, :, ::-1]
        return faces.reshape(-1, faces.shape[2])[self._first_faces(lambda uses: uses == 1)]

    def _first_faces(self, select: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return ascending indices of faces that `select` picks by their number of elements.

        A face of several elements has the index of its first occurrence.
        """
        keys = topology.face_keys(self.elements, self.faces, len(self.vertices))
        _, first, uses = np.unique(keys, return_index=True, return_counts=True)
        return np.sort(first[select(uses)])

    def surface(self) -> tuple[SurfaceMesh, np.ndarray]:
        """Return the boundary as a mesh, and the indices of its vertices in this mesh."""
        vertex_index, compact = np.unique(self.boundary(), return_inverse=True)
        mesh = SurfaceMesh(self.vertices[vertex_index], compact.reshape(-1, 3))
        return mesh, vertex_index

    def oriented(self) -> Self:
        """Return a copy in which inverted elements are mirrored."""
        elements = self.elements.copy()
        inverted = self.volumes() < 0
        elements[inverted] = elements[inverted][:, self.mirrored]
        return type(self)(self.vertices, elements, self.sets)

    def without(self, unwanted: np.ndarray) -> Self:
        """Return a copy without the elements `unwanted` (indices).

        All vertices are kept; element sets are renumbered.
        """
        keep = np.ones(len(self.elements), dtype=bool)
        keep[unwanted] = False
        new_index = np.cumsum(keep) - 1
        sets = {name: new_index[members[keep[members]]] for name, members in self.sets.items()}
        return type(self)(self.vertices, self.elements[keep], sets)

    def components(self) -> np.ndarray:
        """Label elements by component, (m,); elements with a common vertex are connected."""
        return topology.components(self.elements, len(self.vertices))

    def _flatness(self) -> np.ndarray:
        """Return the volumes below which elements count as flat."""
        longest = topology.longest_edges(self.vertices, self.elements)
        return topology.FLAT * longest**2 * self.size

    def _all_defects(self) -> Iterator[Defect]:
        n, noun = len(self.vertices), self.noun
        yield from self._shape_defects()
        repeated = topology.repeated_rows(self.elements, n)
        yield topology.defect(f"duplicate {self.plural}", repeated, noun)
        loose = topology.unreferenced(self.elements, n)
        yield topology.defect("unreferenced vertices", loose, "vertex")
        crowded = self._first_faces(lambda uses: uses > 2) // len(self.faces)
        yield topology.defect("non-manifold faces", crowded, noun)
        labels = self.components()
        count = int(labels.max()) + 1
        if count > 1:
            second = int(np.argmax(labels == 1))
            message = f"is in {count} separate components (the second begins at {noun} {second})"
            yield Defect("components", count, second, message)

    def defects(self) -> list[Defect]:
        """List defects of the mesh; it may still be usable.

        Returns
        -------
        list of Defect
            Of the kinds ``inverted``, ``degenerate`` and ``duplicate`` elements (named: ``inverted
            tets``), ``tangled hexes`` (inverted in part), ``unreferenced vertices``,
            ``non-manifold faces`` (more than two elements share them) and ``components`` (when
            there are several).
        """
        return [defect for defect in self._all_defects() if defect.count]


def _checked_set(
    name: str, members: ArrayLike, n_elements: int, noun: str, plural: str
) -> np.ndarray:
    try:
        indices = np.asarray(members)
    except ValueError as error:
        raise MeshError(f'set "{name}" is not a list of {plural}') from error
    if indices.size == 0:
        return np.empty(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise MeshError(f'set "{name}" is not a list of {plural}')
    wrong = np.flatnonzero((indices < 0) | (indices >= n_elements))
    if len(wrong):
        raise MeshError(
            f'set "{name}" has {noun} {indices[wrong[0]]}, but there are {n_elements} {plural}'
        )
    return np.unique(indices.astype(np.int64))
