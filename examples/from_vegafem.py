"""Read a reduced model of VegaFEM and simulate it; or first write one that VegaFEM can read.

VegaFEM stores a reduced StVK body in three files: forces (.cub), modes of the surface
(.URendering.float) and the surface (.obj):

    python examples/from_vegafem.py A.cub A.URendering.float A.obj --frequency-scaling 0.02

Without files, the script first writes those of a small beam.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from supple import Material, StvkModel, StvkSimulator
from supple.formats.vega.vega_model import read_vega, write_vega
from supple.scenes.bodies.beam import beam


def beam_files(folder: Path) -> list[Path]:
    """Write a beam held at one end in the format of VegaFEM; return .cub, modes and surface."""
    mesh = beam(cells=(10, 2, 2))
    wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    model = StvkModel.build(mesh, Material("stvk", young=1e5), modes=8, fixed=wall)
    forces, _, modes, surface = write_vega(folder / "beam.cub", model)
    return [forces, modes, surface]


def main(arguments: list[str] | None = None) -> float:
    """Run the example; return the displacement of the pulled vertex in the mesh's unit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help=".cub, modes, surface")
    parser.add_argument("--frequency-scaling", type=float, default=1.0, help="as in your .config")
    options = parser.parse_args(arguments)
    if len(options.files) not in (0, 3):
        parser.error("give three files: .cub, modes (.U or .float) and surface (.obj or .veg)")

    with TemporaryDirectory() as folder:
        files = options.files or beam_files(Path(folder))
        model = read_vega(*files, frequency_scaling=options.frequency_scaling)

    stiffness = model.stiffness(np.zeros(model.modes))
    frequencies = np.sqrt(np.linalg.eigvalsh(stiffness)) / (2 * np.pi)
    print(f"{model}, from {frequencies[0]:.3g} to {frequencies[-1]:.3g} Hz")

    # Pull the vertex that moves most in its softest direction, by a tenth of the body's size.
    pulled = int(np.linalg.norm(model.surface_basis, axis=(1, 2)).argmax())
    rows = model.surface_basis[pulled]
    softness, directions = np.linalg.eigh(rows @ np.linalg.solve(stiffness, rows.T))
    pull = 0.1 * model.surface.size / softness[-1] * directions[:, -1]

    # VegaFEM's dampingMassCoef and dampingStiffnessCoef are alpha and beta here.
    simulator = StvkSimulator(model, dt=1 / (200 * frequencies[0]), beta=0.1 / frequencies[0])
    for _ in range(600):
        simulator.step({pulled: pull})
    moved = float(np.linalg.norm(simulator.surface()[pulled] - model.surface.vertices[pulled]))
    part = 100 * moved / model.surface.size
    print(f"vertex {pulled} moved by {moved:.3g}, {part:.0f} % of the body")
    return moved


if __name__ == "__main__":
    main()
