"""Sketch of a body's motion: recorded pulls on its linear model become a basis (barbic2005 §5.2).

The linear model answers a pull at once, as its static shape K₀⁻¹ f. It distorts under strong pulls,
but shows the kind of deformation; the full body is then solved under the recorded forces.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from supple.app.viewer.session.grips import BasisGrip
from supple.arrays import Floats
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk.bases import principal_basis
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.sketch import far_apart, static_shapes
from supple.errors import SuppleError
from supple.mesh.embedding import embed
from supple.mesh.hex_embedding import embed_hexes
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.progress import Progress

#: Loads, and shapes, that differ from the last one used by less than this are left out.
SEPARATION = 0.04
#: Weight of the columns of the present basis relative to the largest shape. They fill up a basis
#: of few different shapes.
KEPT = 0.02
#: Most recorded loads: ten minutes of pulling.
MOST_LOADS = 60_000


class BodySketch:
    """Recorded loads of a body, and the bases that they give."""

    def __init__(self, model: StvkModel, mesh: TetMesh | HexMesh, name: str = "body") -> None:
        self.name, self.mesh, self.built = name, mesh, model
        self.loads: list[tuple[BasisGrip, Floats]] = []  # grips, and forces (3,) in the world

    def shape(self, model: StvkModel, grips: Iterable[BasisGrip]) -> Floats:
        """Return q (r,) of the linear model under grips; record their forces.

        Springs are as firm as in the softest direction in all directions, since the linear model
        moves along straight lines and a hand along curves.
        """
        held = list(grips)
        stiffness, pull = model.stiffness(np.zeros(model.modes)), np.zeros(model.modes)
        for grip in held:
            firm = float(grip.stiffness.min())
            stiffness += firm * grip.rows.T @ grip.rows
            pull += firm * grip.rows.T @ (grip.target @ grip.axes - grip.rest)
        q = np.asarray(np.linalg.solve(stiffness, pull), np.float64)
        for grip in held:
            offset = grip.target @ grip.axes - grip.rest - grip.rows @ q
            if len(self.loads) < MOST_LOADS:
                self.loads.append((grip, float(grip.stiffness.min()) * (grip.axes @ offset)))
        return q

    def clear(self) -> None:
        """Forget all loads."""
        self.loads.clear()

    def refined(self, progress: Progress) -> StvkModel:
        """Return the model in a basis of the static shapes under all recorded loads.

        Any thread may call this; it takes about a second for each load.
        """
        loads = list(self.loads)
        if not loads:
            raise SuppleError("there is no sketch yet; turn Sketch on and drag the body")
        model, groups = self.built, self.built.groups
        young, poisson, density = (
            values[groups.of_element] for values in (groups.young, groups.poisson, groups.density)
        )
        material = Material("stvk", young, poisson, density)
        body: ElasticBody | HexBody
        if isinstance(self.mesh, TetMesh):
            body = ElasticBody(self.mesh, material)
        else:
            body = HexBody(self.mesh, material)
        fixed = np.flatnonzero(~model.basis.any(axis=(1, 2)))
        chosen = far_apart(np.array([force for _, force in loads]), SEPARATION)
        forces = self._full_forces([loads[k] for k in chosen])
        shapes = static_shapes(
            body,
            list(forces),
            fixed=fixed,
            skip=True,
            progress=lambda part, text: progress(0.9 * part, text),
        )
        masses = np.repeat(body.vertex_masses(), 3)
        columns = np.ascontiguousarray(shapes.reshape(len(shapes), -1).T)
        largest = np.sqrt((masses @ columns**2).max())
        present = KEPT * largest * model.basis.reshape(-1, model.modes)
        progress(0.9, "basis and coefficients")
        basis = principal_basis(body, np.hstack([columns, present]), model.modes, fixed)
        return StvkModel.from_basis(
            self.mesh,
            material,
            basis,
            fixed=fixed,
            groups=groups.of_element,
            surface=model.surface,
        )

    def _full_forces(self, loads: list[tuple[BasisGrip, Floats]]) -> Floats:
        """Return forces (t, n, 3) on the mesh; the surface is embedded in it."""
        surface, mesh = self.built.surface, self.mesh
        if isinstance(mesh, TetMesh):
            weights = embed(surface.vertices, mesh)
        else:
            weights = embed_hexes(surface.vertices, mesh)
        out = np.zeros((len(loads), len(mesh.vertices), 3))
        for target, (grip, force) in zip(out, loads, strict=True):
            patch = grip.patch
            target += weights[patch.vertices].T @ (patch.shares[:, None] * force)
        return out
