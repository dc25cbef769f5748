"""A tet mesh made of a material: its energy, forces, stiffness and mass."""

from __future__ import annotations

from supple.elastic.element_body import ElementBody, checked_material
from supple.elastic.material import Material
from supple.errors import MeshError
from supple.mesh.tets import TetMesh

__all__ = ["ElasticBody"]


class ElasticBody(ElementBody):
    """A tet mesh with a material, ready to be evaluated at any positions.

    Forces are gradients of energy, so they stand on the left of the equation of motion,
    M a + D v + f = f_ext. Results are the same bits for any number of threads.

    Parameters
    ----------
    mesh
        The tets at rest; none may be inverted or flat.
    material
        What they are made of; uniform or per tet.

    Examples
    --------
    >>> import numpy as np
    >>> from supple.mesh import TetMesh
    >>> corner = TetMesh(np.vstack([np.zeros(3), np.eye(3)]), [[0, 1, 2, 3]])
    >>> body = ElasticBody(corner, Material("neo-hookean", young=1e4))
    >>> body.energy(corner.vertices)
    0.0
    >>> body.stiffness(corner.vertices).shape
    (12, 12)
    """

    mesh: TetMesh

    def __init__(self, mesh: TetMesh, material: Material | None = None) -> None:
        made_of = checked_material(material, "neo-hookean")
        volumes = mesh.volumes()
        if not (volumes > 0).all():
            worst = int(volumes.argmin())
            raise MeshError(
                f"{int((volumes <= 0).sum())} tets are inverted or flat (worst: tet {worst}, "
                f"volume {volumes[worst]:.3g} m³); use mesh.oriented() or remove them"
            )
        super().__init__(mesh, made_of)

    @property
    def n_tets(self) -> int:
        """Number of tets."""
        return len(self._elements)
