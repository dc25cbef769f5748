"""A hexahedral mesh made of a material: its energy, forces, stiffness and mass."""

from __future__ import annotations

from supple.elastic.element_body import ElementBody, checked_material
from supple.elastic.material import Material
from supple.errors import MeshError, SuppleError
from supple.mesh.hex_shapes import gauss_points, shape_gradients
from supple.mesh.hexes import HexMesh

__all__ = ["HexBody"]


class HexBody(ElementBody):
    """A hex mesh with a material: the verbs of `ElasticBody`, on trilinear hexahedra.

    Energies are integrated at Gauss points; force and stiffness are its exact derivatives.
    Results are the same bits for any number of threads.

    Parameters
    ----------
    mesh
        The hexes at rest; none may be inverted or flat at an integration point.
    material
        What they are made of; uniform or per hex. By default StVK.
    order
        Integration points along an axis: 2, or 3, which is exact for StVK on boxes.

    Examples
    --------
    >>> from supple.mesh.hex_shapes import CORNERS
    >>> cube = HexMesh(0.1 * CORNERS, [range(8)])
    >>> body = HexBody(cube, Material("stvk", young=1e4, poisson=0.0))
    >>> stretched = cube.vertices * [1.1, 1.0, 1.0]
    >>> round(body.energy(stretched), 12)  # ½ E ε² V with ε = 1.1²/2 − 1/2
    0.055125
    """

    mesh: HexMesh

    def __init__(self, mesh: HexMesh, material: Material | None = None, *, order: int = 2) -> None:
        made_of = checked_material(material, "stvk")
        if order not in (2, 3):  # with one point an axis, a cube has shapes that cost nothing
            raise SuppleError(f"order is 2 or 3 integration points along an axis, not {order!r}")
        self.order = int(order)
        jacobians = mesh.jacobians(self.order)
        if not (jacobians > 0).all():
            worst = int(jacobians.min(axis=1).argmin())
            raise MeshError(
                f"{int((jacobians <= 0).any(axis=1).sum())} hexes are inverted or flat at an "
                f"integration point (worst: hex {worst}); use mesh.oriented() or remove them"
            )
        points, weights = gauss_points(self.order)
        super().__init__(mesh, made_of, shape_gradients(points), weights)

    def __repr__(self) -> str:
        return f"HexBody({self.mesh!r}, {self.material.kind}, {self.order}³ points)"

    @property
    def n_hexes(self) -> int:
        """Number of hexes."""
        return len(self._elements)
