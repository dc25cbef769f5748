"""Software renderer with smooth shading, shadows and a ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled
from supple.mesh.appearance import Appearance
from supple.mesh.surface import SurfaceMesh, vertex_normals

KEY = np.array([-0.45, 0.80, 0.55]) / np.linalg.norm([-0.45, 0.80, 0.55])
_KEY_COLOUR = np.array([1.0, 0.95, 0.88])
_SKY, _BOUNCE = np.array([0.62, 0.68, 0.78]), np.array([0.42, 0.36, 0.32])
_SHADOW_PIXELS = 512
#: Side of the blocks of pixels that a soft shadow averages.
_BLOCK = 4
#: Sub-pixels across a pixel.
_FINE = 2
#: Most transparent layers.
_LAYERS = 6


@dataclass(frozen=True, eq=False)
class Camera:
    """Orthographic camera."""

    view: Floats  # rows: right, up and towards the viewer
    centre: Floats  # point in the middle of the picture
    scale: float  # pixels per metre
    pixels: tuple[int, int]  # width and height

    def finer(self, times: int) -> Camera:
        """Return the same view with `times` as many pixels along each side."""
        width, height = self.pixels
        return Camera(self.view, self.centre, self.scale * times, (width * times, height * times))

    def project(self, points: Floats) -> Floats:
        """Return (n, 3): pixels to the right, pixels down, metres towards the viewer."""
        x, y, z = np.asarray(points - self.centre).T
        # Not a matrix product, which wakes all threads of BLAS for three columns.
        projected = np.stack([x * a + y * b + z * c for a, b, c in self.view], axis=1)
        projected[:, 0] = self.pixels[0] / 2 + self.scale * projected[:, 0]
        projected[:, 1] = self.pixels[1] / 2 - self.scale * projected[:, 1]
        return projected

    def on_ground(self, height: float) -> Floats:
        """Return the point on the ground at each pixel, (h, w, 3); far away if seen from below."""
        width, tall = self.pixels
        u = (np.arange(width) + 0.5 - width / 2) / self.scale
        v = (tall / 2 - np.arange(tall) - 0.5) / self.scale
        right, up, towards = self.view
        plane = self.centre + u[None, :, None] * right + v[:, None, None] * up
        along = (height - plane[..., 1]) / max(towards[1], 1e-3)
        return plane + along[..., None] * towards


@dataclass(frozen=True, eq=False)
class Body:
    """Surface to be drawn, in the world."""

    vertices: Floats
    triangles: NDArray[np.int64]
    normals: Floats  # (n, 3) of unit length
    colours: Floats  # (n, 3), 0 to 1
    cavity: Floats  # (n,) visibility of the sky; see `cavities`
    appearance: Appearance | None = None  # materials and textures, which replace `colours`


def rasterised(
    seen: Floats, triangles: NDArray[np.int64], width: int, height: int
) -> tuple[Singles, NDArray[np.int32], Singles]:
    """Return depth (h, w), nearest triangle (−1: none) and two barycentric coordinates (h, w, 2).

    `seen` (n, 3) are vertices projected by `Camera.project`.
    """
    return rasterised_behind(seen, triangles, np.full((height, width), np.inf, np.float32))


@compiled
def rasterised_behind(
    seen: Floats, triangles: NDArray[np.int64], before: Singles
) -> tuple[Singles, NDArray[np.int32], Singles]:
    """Rasterise the next layer behind the depths `before` (h, w); see `rasterised`."""
    height, width = before.shape
    nearest = np.full((height, width), -np.inf, np.float32)
    which = np.full((height, width), -1, np.int32)
    parts = np.zeros((height, width, 2), np.float32)
    for t in range(len(triangles)):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ax, ay = seen[a, 0], seen[a, 1]
        bx, by = seen[b, 0], seen[b, 1]
        cx, cy = seen[c, 0], seen[c, 1]
        twice = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if not abs(twice) > 1e-12:
            continue
        left = int(max(0.0, np.floor(min(ax, bx, cx) - 0.5)))
        right = int(min(width - 1.0, np.ceil(max(ax, bx, cx))))
        top = int(max(0.0, np.floor(min(ay, by, cy) - 0.5)))
        bottom = int(min(height - 1.0, np.ceil(max(ay, by, cy))))
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                px, py = x + 0.5, y + 0.5
                u = ((bx - px) * (cy - py) - (by - py) * (cx - px)) / twice
                v = ((cx - px) * (ay - py) - (cy - py) * (ax - px)) / twice
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                # Rounded as stored, or a layer would lie behind itself.
                depth = np.float32(u * seen[a, 2] + v * seen[b, 2] + w * seen[c, 2])
                if depth > nearest[y, x] and depth < before[y, x]:
                    nearest[y, x] = depth
                    which[y, x] = t
                    parts[y, x, 0], parts[y, x, 1] = u, v
    return nearest, which, parts


@dataclass(frozen=True, eq=False)
class Glass:
    """Transparent surface of one colour in the world, such as an obstacle."""

    vertices: Floats
    triangles: NDArray[np.int64]
    colour: tuple[float, float, float]
    opacity: float


def render(
    body: Body, camera: Camera, ground: float, paper: Floats, glasses: Sequence[Glass] = ()
) -> tuple[Floats, Floats]:
    """Render the body on the ground, with transparent surfaces behind and before it.

    Return the picture (h, w, 3) and the coverage (h, w) of the body.
    """
    fine = camera.finer(_FINE)
    width, height = fine.pixels
    projected = fine.project(body.vertices)
    shadow = _Shadow(body, ground)
    # The ground is smooth: one colour per pixel, not per sub-pixel.
    picture = _ground_colours(camera, shadow, ground, paper).repeat(_FINE, 0).repeat(_FINE, 1)
    opaque = body.appearance is None or body.appearance.is_opaque
    layers = _layers(body, projected, (height, width), 1 if opaque else _LAYERS)
    through, light = np.ones((height, width)), np.zeros_like(picture)
    for which, parts in layers:
        hit = which >= 0
        u, v = parts[hit].T.astype(np.float64)
        shares = np.stack([u, v, 1 - u - v], axis=1)
        colours = _linear_colours(body, projected, which[hit], shares)
        opacity = through[hit] * colours[:, 3]
        corners = body.triangles[which[hit]]
        lit = _lit(body, corners, shares, colours[:, :3], camera.view[2], shadow)
        light[hit] += opacity[:, None] * lit
        through[hit] -= opacity
    behind, before = _glass_layers(glasses, fine, body) if glasses else ([], [])
    for colours, opacity in behind:
        picture = colours + (1 - opacity) * picture
    picture = light + through[..., None] * picture
    for colours, opacity in before:
        picture = colours + (1 - opacity) * picture
    sub_pixels = camera.pixels[1], _FINE, camera.pixels[0], _FINE
    coarse = picture.reshape(*sub_pixels, 3).mean(axis=(1, 3))
    coverage = 1 - through.reshape(sub_pixels).mean(axis=(1, 3))
    return np.clip(coarse, 0.0, 1.0), coverage


def _glass_layers(
    glasses: Sequence[Glass], camera: Camera, body: Body
) -> tuple[list[tuple[Floats, Floats]], list[tuple[Floats, Floats]]]:
    """Return layers behind and before the body, far ones first.

    A layer has premultiplied colours (h, w, 3) and opacities (h, w, 1).
    """
    layers: tuple[list[tuple[Floats, Floats]], list[tuple[Floats, Floats]]] = ([], [])
    depths = rasterised(camera.project(body.vertices), body.triangles, *camera.pixels)[0]
    seen = [camera.project(each.vertices) for each in glasses]
    for k in np.argsort([float(points[:, 2].mean()) for points in seen]):
        each = glasses[k]
        near, which, _ = rasterised(seen[k], each.triangles, *camera.pixels)
        hit = which >= 0
        a, b, c = (each.vertices[each.triangles[which[hit], j]] for j in range(3))
        normals = np.cross(b - a, c - a)
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
        normals *= np.where(normals @ camera.view[2] < 0, -1.0, 1.0)[:, None]
        lit = 0.55 + 0.45 * np.clip(normals @ KEY, 0.0, 1.0)
        for layer, shown in zip(layers, (near < depths, near >= depths), strict=True):
            visible = (hit & shown)[hit]
            opacity, colours = np.zeros((*near.shape, 1)), np.zeros((*near.shape, 3))
            opacity[hit, 0] = each.opacity * visible
            colours[hit] = (each.opacity * visible * lit)[:, None] * each.colour
            layer.append((colours, opacity))
    return layers


def _layers(
    body: Body, seen: Floats, shape: tuple[int, int], count: int
) -> Iterator[tuple[NDArray[np.int32], Singles]]:
    """Yield triangle and barycentric coordinates by pixel, layer by layer from the front."""
    before = np.full(shape, np.inf, np.float32)
    for _ in range(count):
        before, which, parts = rasterised_behind(seen, body.triangles, before)
        if not (which >= 0).any():
            return
        yield which, parts


def _linear_colours(
    body: Body, seen: Floats, triangles: NDArray[np.int32], shares: Floats
) -> Floats:
    """Return linear colour and opacity (k, 4) of points on triangles."""
    if body.appearance is not None:
        a, b, c = (seen[body.triangles[triangles, k], :2] for k in range(3))
        twice = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
        parts = 2 / np.maximum(np.abs(twice), 1e-12)  # area of a pixel relative to its triangle
        return body.appearance.colours(triangles.astype(np.int64), shares, parts)
    painted = np.einsum("kc,kci->ki", shares, body.colours[body.triangles[triangles]])
    return np.column_stack([painted**2.2, np.ones(len(painted))])


class _Shadow:
    """Shadow maps of a body: depths from the key light and from above."""

    def __init__(self, body: Body, ground: float) -> None:
        low, high = body.vertices.min(axis=0), body.vertices.max(axis=0)
        self.size = max(float(np.linalg.norm(high - low)), 1e-12)
        self.centre, self.ground = (low + high) / 2, ground
        self.light = self._camera(KEY)
        self.depths = self._depths(self.light, body)
        self.above = self._camera(np.array([1e-6, 1.0, 0.0]))
        heights = self.centre[1] + self._depths(self.above, body) - ground
        # A body hides the sky from the ground below it.
        hidden = np.where(np.isfinite(heights), 1.0, 0.0)
        blocks = hidden.reshape(_SHADOW_PIXELS // _BLOCK, _BLOCK, -1, _BLOCK).mean(axis=(1, 3))
        soft = 0.55 * gaussian_filter(blocks, 30 / _BLOCK) + 0.45 * gaussian_filter(
            blocks, 10 / _BLOCK
        )
        self.hidden = zoom(soft, _BLOCK, order=1, grid_mode=True, mode="nearest")

    def _camera(self, towards: Floats) -> Camera:
        right = np.cross([0.0, 0.0, -1.0], towards)
        right /= np.linalg.norm(right)
        view = np.stack([right, np.cross(towards, right), towards / np.linalg.norm(towards)])
        pixels = (_SHADOW_PIXELS, _SHADOW_PIXELS)
        return Camera(view, self.centre, _SHADOW_PIXELS / (1.5 * self.size), pixels)

    def _depths(self, camera: Camera, body: Body) -> Singles:
        return rasterised(camera.project(body.vertices), body.triangles, *camera.pixels)[0]

    def key(self, points: Floats, radius: float = 3.0) -> Floats:
        """Return the fraction of the key light at points, (k,), with soft edges."""
        seen = self.light.project(points)
        seen[:, 2] += 0.008 * self.size
        angles = np.arange(16) * 2.39996  # Vogel spiral
        spread = radius * np.sqrt((np.arange(16) + 0.5) / 16)
        return _lit_part(self.depths, seen, spread * np.cos(angles), spread * np.sin(angles))

    def sky(self, points: Floats) -> Floats:
        """Return the hidden fraction of the sky at points on the ground, (k,)."""
        return _values_at(self.hidden, self.above.project(points)[:, :2], 0.0)


@compiled
def _lit_part(depths: Singles, seen: Floats, right: Floats, down: Floats) -> Floats:
    """Return the fraction (k,) of samples around projected points that no surface hides."""
    lit = np.zeros(len(seen))
    for k in range(len(seen)):
        for i in range(len(right)):
            column, row = int(np.floor(seen[k, 0] + right[i])), int(np.floor(seen[k, 1] + down[i]))
            inside = 0 <= column < depths.shape[1] and 0 <= row < depths.shape[0]
            if not inside or seen[k, 2] >= depths[row, column]:
                lit[k] += 1.0
        lit[k] /= len(right)
    return lit


def _values_at(table: NDArray, at: Floats, outside: float) -> NDArray:
    """Return the values (k,) of a table at pixels (k, 2), or `outside` beyond its edges."""
    column, row = np.floor(at).astype(np.int64).T
    inside = (column >= 0) & (row >= 0) & (column < table.shape[1]) & (row < table.shape[0])
    values = np.full(len(at), outside)
    values[inside] = table[row[inside], column[inside]]
    return values


def _ground_colours(camera: Camera, shadow: _Shadow, ground: float, paper: Floats) -> Floats:
    points = camera.on_ground(ground).reshape(-1, 3)
    key = shadow.key(points, radius=7.0)
    darker = 1.0 - 0.26 * (1.0 - key) - 0.42 * shadow.sky(points)
    far = np.linalg.norm((points - shadow.centre)[:, [0, 2]], axis=1) / shadow.size
    fade = np.clip(1.6 - 1.6 * far, 0.0, 1.0)
    width, height = camera.pixels
    # Shadows fade towards the edge, as pictures are placed side by side.
    edge = np.clip(
        np.minimum(np.arange(width), width - 1 - np.arange(width)) / (0.12 * width), 0, 1
    )
    fade *= np.tile(edge * edge * (3 - 2 * edge), height)
    tint = 1.0 - (1.0 - darker * (1 - 0.025))[:, None] * fade[:, None] * [1.0, 0.98, 0.94]
    return (tint * paper).reshape(height, width, 3)


def _lit(
    body: Body,
    corners: NDArray[np.int64],
    shares: Floats,
    linear: Floats,
    towards: Floats,
    shadow: _Shadow,
) -> Floats:
    """Return lit sRGB colours (k, 3) of points on triangles with linear base colours."""
    points, normals = (
        np.einsum("kc,kci->ki", shares, values[corners]) for values in (body.vertices, body.normals)
    )
    cavity = np.einsum("kc,kc->k", shares, body.cavity[corners])[:, None]
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    facing = np.clip(normals @ towards, 0.0, 1.0)[:, None]
    reach = shadow.key(points + 0.004 * shadow.size * normals)[:, None]
    key = np.clip((normals @ KEY + 0.15) / 1.15, 0.0, 1.0)[:, None] * reach
    up = 0.5 + 0.5 * normals[:, 1:2]
    near_ground = np.clip((points[:, 1:2] - shadow.ground) / (0.25 * shadow.size), 0.0, 1.0)
    ambient = (_SKY * up + _BOUNCE * (1 - up)) * cavity * (0.6 + 0.4 * near_ground)
    half = KEY + towards
    half /= np.linalg.norm(half)
    gloss = 0.16 * reach * np.clip(normals @ half, 0.0, 1.0)[:, None] ** 24
    rim = 0.30 * (1 - facing) ** 3 * (0.35 + 0.65 * up)
    light = linear * (0.62 * ambient + 1.12 * _KEY_COLOUR * key * np.minimum(cavity, 1.0))
    light = light + gloss + rim * (0.25 + linear)
    return np.clip(light / (1 + 0.18 * light), 0.0, 1.0) ** (1 / 2.2)


# Ambient light per vertex


#: Rounds of smoothing, one for each width of hollows, and the weight of each depth.
_ROUNDS, _EACH = (6, 30, 90), 0.13


def cavities(surface: SurfaceMesh) -> Floats:
    """Return visibility of the sky (n,): 0.35 in a deep hollow, 1 on a plane, 1.15 on a ridge.

    The depth of a hollow is the displacement by smoothing along the normal. It approximates
    ambient occlusion at a fraction of its cost.
    """
    points = surface.vertices.astype(np.float64)
    normals = vertex_normals(points, surface.triangles)
    average = _neighbour_average(surface)
    hollow, smooth, done = np.zeros(len(points)), points, 0
    for rounds in _ROUNDS:
        for _ in range(rounds - done):
            smooth = 0.5 * (smooth + average @ smooth)
        done = rounds
        depth = np.einsum("ni,ni->n", smooth - points, normals)
        depth += np.median(np.abs(depth))  # remove the mean curvature of a round body
        usual = max(float(np.quantile(np.abs(depth), 0.9)), 1e-9 * surface.size)
        hollow += _EACH * np.clip(depth / usual, -1.0, 2.5)
    return np.clip(1.0 - hollow, 0.35, 1.15)


def _neighbour_average(surface: SurfaceMesh) -> sp.csr_array:
    count, triangles = len(surface.vertices), surface.triangles
    first = triangles.reshape(-1)
    second = np.roll(triangles, -1, axis=1).reshape(-1)
    pairs = sp.coo_array((np.ones(len(first)), (first, second)), shape=(count, count))
    linked = (pairs + pairs.T).tocsr()
    linked.data[:] = 1.0
    alone = np.flatnonzero(np.diff(linked.indptr) == 0)
    linked = linked + sp.coo_array((np.ones(len(alone)), (alone, alone)), shape=(count, count))
    degree = linked.sum(axis=1)
    return sp.csr_array(sp.diags_array(1.0 / degree) @ linked)
