"""Appearance of a surface: its materials, the pictures laid over it, and painted colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.errors import MeshError
from supple.mesh.texture import Texture

__all__ = ["Alpha", "Appearance", "Material"]

Alpha = Literal["opaque", "mask", "blend"]


@dataclass(frozen=True, eq=False)
class Material:
    """Colour of a part of a surface.

    Attributes
    ----------
    name
        That the file has for it, or "".
    colour
        Linear light and opacity, four numbers from 0 to 1; a texture's colours are multiplied
        by it.
    texture
        Laid over it, or None.
    alpha
        What opacity means: ``"opaque"``: nothing; ``"mask"``: what has less than `cutoff` is not
        there; ``"blend"``: what is behind shows through.
    cutoff
        For ``"mask"``.
    """

    name: str = ""
    colour: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    texture: Texture | None = None
    alpha: Alpha = "opaque"
    cutoff: float = 0.5


@dataclass(frozen=True, eq=False)
class Appearance:
    """Colours of a surface, triangle by triangle, as its file has them.

    Vertices of the surface are welded; coordinates on textures differ from corner to corner.

    Attributes
    ----------
    materials
        All that there are.
    material_of
        (m,) material of each of the surface's triangles.
    uv
        (m, 3, 2) finite coordinates on the texture at their corners; None without textures.
    tints
        (m, 3, 4) linear light and opacity that corners are multiplied by: painted colours; None
        where none are painted.
    """

    materials: tuple[Material, ...]
    material_of: Ints
    uv: Singles | None = None
    tints: Singles | None = None

    def __post_init__(self) -> None:
        m, known = len(self.material_of), len(self.materials)
        if m == 0 or not (self.material_of.min() >= 0 and self.material_of.max() < known):
            raise MeshError(f"triangles of an appearance have other materials than its {known}")
        for name, values, shape in (("uv", self.uv, (m, 3, 2)), ("tints", self.tints, (m, 3, 4))):
            if values is not None and not (values.shape == shape and np.isfinite(values).all()):
                raise MeshError(f"{name} of an appearance are not finite numbers of shape {shape}")

    def __repr__(self) -> str:
        textures = len({id(each.texture) for each in self.materials if each.texture})
        return f"Appearance({len(self.materials)} materials, {textures} textures)"

    @property
    def is_opaque(self) -> bool:
        """True if nothing behind it can be seen."""
        return all(self.materials[k].alpha == "opaque" for k in np.unique(self.material_of))

    def colours(self, triangles: Ints, shares: Floats, parts: Floats | None = None) -> Floats:
        """Return linear light and opacity (k, 4) of points on the surface.

        Parameters
        ----------
        triangles
            (k,) of the points.
        shares
            (k, 3) of its corners.
        parts
            (k,) part of its triangle that a point stands for: colours are averaged over as much
            of the texture. By default they are those of the point alone.
        """
        found = np.empty((len(triangles), 4))
        which = self.material_of[triangles]
        for number in np.unique(which):
            chosen = np.flatnonzero(which == number)
            part = None if parts is None else parts[chosen]
            found[chosen] = self._of(number, triangles[chosen], shares[chosen], part)
        return found

    def _of(self, number: int, triangles: Ints, shares: Floats, parts: Floats | None) -> Floats:
        material = self.materials[number]
        found = np.tile(material.colour, (len(triangles), 1))
        if self.tints is not None:
            found *= np.einsum("kc,kci->ki", shares, self.tints[triangles])
        if material.texture is not None and self.uv is not None:
            corners = self.uv[triangles].astype(np.float64)
            texels = None
            if parts is not None and material.texture.levels:
                tall, wide = material.texture.levels[0].shape[:2]
                a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
                area = 0.5 * np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
                texels = area * tall * wide * parts
            found *= material.texture.sample(np.einsum("kc,kci->ki", shares, corners), texels)
        if material.alpha == "opaque":
            found[:, 3] = 1.0
        elif material.alpha == "mask":
            found[:, 3] = found[:, 3] >= material.cutoff
        return np.clip(found, 0.0, 1.0)
