"""Videos of a baked motion: rig and flesh side by side, or the flesh alone.

Pillow writes .gif and .webp; .mp4 and .webm need the extra ``supple[video]``, which brings the
program ffmpeg, which runs in a separate process.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter1d

from supple.app.pictures.drawing import PAPER_RGB, view_axes
from supple.app.pictures.filmstrip import (
    AZIMUTH,
    CLAY,
    ELEVATION,
    GLASS,
    SOFT,
    liveliest_baked,
)
from supple.app.pictures.render import Body, Camera, Glass, cavities, render
from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.surface import vertex_normals
from supple.progress import PartDone, unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.drawn_obstacles import clear_azimuth, drawn_obstacles, ground_height
from supple.saving import write_whole

Show = Literal["both", "flesh"]
Picture = NDArray[np.uint8]

#: Frames per second of a video, unless the bake has fewer.
RATE = 30.0
#: Default width and height in pixels.
SIZE = (960, 540)
_LEAST, _MOST = 64, 4096
#: Most frames per second of a .gif: programs show shorter frames for a tenth of a second.
GIF_RATE = 50.0
#: Most frames of a video, and bytes of all pictures of a .gif or .webp, which are in memory.
MOST_FRAMES, LARGEST_PICTURES = 18_000, 2 * 2**30
#: Standard deviation in seconds of the filter that the camera's path passes through.
_FOLLOW = 0.5
#: Part of the picture that the character may cover.
_FILL = 0.86
_PALETTE_FRAMES = 8


def video_size(text: str) -> tuple[int, int]:
    """Return width and height of a text such as "960x540"; both are even."""
    match = re.fullmatch(r"(\d{1,5})\s*[x×]\s*(\d{1,5})", text.strip())
    sides = tuple(int(side) for side in match.groups()) if match else ()
    if not match or not all(_LEAST <= side <= _MOST and side % 2 == 0 for side in sides):
        raise SuppleError(
            f'"{text}" is not the size of a video; use even numbers of pixels from {_LEAST} to '
            f"{_MOST}, such as 960x540"
        )
    return sides[0], sides[1]


def check_video(path: Path) -> None:
    """Refuse a name whose format cannot be written, before any work."""
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        formats = ", ".join(WRITERS)
        raise SuppleError(
            f'{path}: "{path.suffix}" is not a format of videos; use one of {formats}'
        )
    if WRITERS[suffix] is not _write_by_ffmpeg:
        return
    if find_spec("imageio_ffmpeg") is None:
        raise SuppleError(
            f"{path}: needs an extra; run pip install 'supple[video]', or write .webp or .gif"
        )
    import imageio_ffmpeg

    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError:
        raise SuppleError(
            f"{path}: needs the program ffmpeg; install it, or write .webp or .gif"
        ) from None


def video(
    baked: BakedMotion | Sequence[BakedMotion],
    path: str | Path,
    *,
    show: Show = "both",
    size: tuple[int, int] = SIZE,
    rate: float = RATE,
    azimuth: float = AZIMUTH,
    clay: bool = False,
    progress: PartDone = unreported,
) -> dict[str, Any]:
    """Write a video of a motion, or of the liveliest of several, atomically.

    The suffix selects the format: .mp4, .webm, .webp or .gif. `show` is "both" for the rig on the
    left and the flesh on the right, or "flesh". The camera follows the character's position; its
    `azimuth` is in degrees. The video has at most `rate` frames per second. With `clay`, colours
    and textures of the character are not used. A .gif has at most 50 frames per second. `progress`
    is called with the fraction done.

    Returns ``frames``, ``rate`` and ``bytes``.
    """
    target = Path(path)
    check_video(target)
    width, height = video_size(f"{size[0]}x{size[1]}")
    if show not in ("both", "flesh"):
        raise SuppleError(f'show="{show}": use "both" or "flesh"')
    if not isinstance(baked, BakedMotion):
        baked = baked[liveliest_baked(baked)]
    suffix = target.suffix.lower()
    frames, speed = video_frames(baked, min(rate, GIF_RATE) if suffix == ".gif" else rate)
    if WRITERS[suffix] is _write_by_pillow and len(frames) * width * height * 3 > LARGEST_PICTURES:
        raise SuppleError(
            f"a {suffix} of {len(frames)} frames of {width}x{height} is too large; write .mp4 or "
            ".webm, bake a part with --from and --to, or use a smaller size"
        )
    sides = ("rig", "flesh") if show == "both" else ("flesh",)
    shot = _Shot.of(baked, (width // len(sides), height), azimuth, clay)

    def pictures() -> Iterator[Picture]:
        for k, frame in enumerate(frames):
            yield np.hstack([shot.picture(int(frame), side) for side in sides])
            progress((k + 1) / len(frames))

    write = WRITERS[suffix]
    data = write(pictures(), speed, (width // len(sides) * len(sides), height), suffix)
    write_whole(target, data)
    return {"frames": len(frames), "rate": speed, "bytes": len(data)}


def video_frames(baked: BakedMotion, rate: float = RATE) -> tuple[NDArray[np.int64], float]:
    """Return the frames of a bake that a video shows, and their rate per second.

    The last frame of a loop, which equals the first, is left out.
    """
    if not 1.0 <= rate <= 240.0:
        raise SuppleError(f"rate={rate:g}: use 1 to 240 frames per second")
    step = max(baked.rate / rate, 1.0)
    count = baked.n_frames - 1 if baked.loop and baked.n_frames > 1 else baked.n_frames
    frames = np.arange(0.0, count, step).round().astype(np.int64)
    if len(frames) > MOST_FRAMES:
        raise SuppleError(
            f"a video of {len(frames)} frames is too long; bake a part with --from and --to, "
            f"or use at most {MOST_FRAMES} frames"
        )
    return np.minimum(frames, baked.n_frames - 1), baked.rate / step


@dataclass(frozen=True, eq=False)
class _Shot:
    """Camera path and lighting of a video."""

    baked: BakedMotion
    view: Floats
    centres: Floats  # (frames, 3) points in the middle of the picture
    scale: float
    pixels: tuple[int, int]
    ground: float
    cavity: Floats
    clay: bool

    @classmethod
    def of(cls, baked: BakedMotion, pixels: tuple[int, int], azimuth: float, clay: bool) -> _Shot:
        """Return the shot in which the character stays in the picture, as large as possible."""
        view = view_axes(clear_azimuth(baked, azimuth), ELEVATION)
        boxes = np.empty((baked.n_frames, 2, 2))  # least and greatest right and up
        for k in range(baked.n_frames):
            flat = baked.frames[k] @ view[:2].T
            boxes[k] = flat.min(axis=0), flat.max(axis=0)
        middles = boxes.mean(axis=1)
        # Follows walking, but neither steps nor the height of a jump.
        path = gaussian_filter1d(middles, _FOLLOW * baked.rate, axis=0, mode="nearest")
        if np.ptp(middles, axis=0).max() < 0.25 * float((boxes[:, 1] - boxes[:, 0]).max()):
            path = np.broadcast_to(
                (boxes[:, 0].min(axis=0) + boxes[:, 1].max(axis=0)) / 2, path.shape
            )
        half = np.abs(boxes - path[:, None]).max(axis=(0, 1))
        scale = _FILL * float(np.min(np.array(pixels) / (2 * np.maximum(half, 1e-9))))
        depth = float(np.mean(baked.frames[0] @ view[2]))
        centres = path @ view[:2] + depth * view[2]
        surface = baked.character.surface
        return cls(
            baked, view, centres, scale, pixels, ground_height(baked), cavities(surface), clay
        )

    def picture(self, frame: int, side: str) -> Picture:
        """Return the picture (h, w, 3) of the rig or of the flesh at a frame."""
        baked, triangles = self.baked, self.baked.character.surface.triangles
        points = baked.rig_frame(frame) if side == "rig" else baked.frames[frame]
        points = points.astype(np.float64)
        appearance = None if self.clay or side == "rig" else baked.character.appearance
        colours = np.broadcast_to(CLAY if side == "rig" else SOFT, points.shape)
        normals = vertex_normals(points, triangles)
        body = Body(points, triangles, normals, colours, self.cavity, appearance)
        camera = Camera(self.view, self.centres[frame], self.scale, self.pixels)
        shown, _ = render(body, camera, self.ground, PAPER_RGB, self._glasses(frame))
        return (255 * shown).round().astype(np.uint8)

    def _glasses(self, frame: int) -> list[Glass]:
        """Return the obstacles at a frame."""
        glasses = []
        for each in drawn_obstacles([self.baked]):
            assert each.places[0] is not None
            place = each.places[0][min(frame, len(each.places[0]) - 1)]
            points = each.surface.vertices @ place[:3, :3].T + place[:3, 3]
            glasses.append(Glass(points, each.surface.triangles, *GLASS[each.kind]))
        return glasses


def _write_by_pillow(
    pictures: Iterator[Picture], rate: float, size: tuple[int, int], suffix: str
) -> bytes:
    """Return an animated .gif or .webp that repeats for ever."""
    images = [Image.fromarray(picture) for picture in pictures]
    # Whole milliseconds, or hundredths of a second in .gif, whose sum keeps the rate.
    unit = 10 if suffix == ".gif" else 1
    ends = (np.arange(len(images) + 1) * 1000 / rate / unit).round().astype(np.int64) * unit
    options: dict[str, Any] = {"save_all": True, "duration": np.diff(ends).tolist(), "loop": 0}
    if suffix == ".gif":
        palette = _common_palette(images)
        images = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in images]
    else:
        options |= {"quality": 80, "method": 4}
    data = io.BytesIO()
    images[0].save(data, suffix[1:], append_images=images[1:], **options)
    return data.getvalue()


def _common_palette(images: Sequence[Image.Image]) -> Image.Image:
    """Return an image whose palette fits all images, so that colours do not flicker."""
    chosen = np.unique(np.linspace(0, len(images) - 1, _PALETTE_FRAMES).round().astype(int))
    sample = np.vstack([np.asarray(images[k])[::2, ::2] for k in chosen])
    return Image.fromarray(sample).quantize(256, Image.Quantize.MEDIANCUT)


def _write_by_ffmpeg(
    pictures: Iterator[Picture], rate: float, size: tuple[int, int], suffix: str
) -> bytes:
    """Return a video in H.264 (.mp4) or VP9 (.webm)."""
    import imageio_ffmpeg

    codec, more = ("libx264", ["-crf", "18", "-movflags", "+faststart"])
    if suffix == ".webm":
        codec, more = "libvpx-vp9", ["-crf", "28", "-b:v", "0", "-cpu-used", "4"]
    with TemporaryDirectory(prefix="supple-") as folder:
        file = Path(folder) / f"video{suffix}"
        writer = imageio_ffmpeg.write_frames(
            str(file), size, fps=rate, codec=codec, quality=None, macro_block_size=2,
            pix_fmt_out="yuv420p", output_params=more, ffmpeg_log_level="error",
        )  # fmt: skip
        try:
            writer.send(None)
            for picture in pictures:
                writer.send(np.ascontiguousarray(picture))
        except OSError as error:
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise SuppleError(f"ffmpeg ended: {reason}") from None
        finally:
            writer.close()
        if not file.is_file():
            raise SuppleError("ffmpeg wrote no file; write .webp or .gif instead")
        return file.read_bytes()


#: Writers by suffix: from pictures, rate, size and suffix to the bytes of a file.
WRITERS: dict[str, Callable[[Iterator[Picture], float, tuple[int, int], str], bytes]] = {
    ".mp4": _write_by_ffmpeg,
    ".webm": _write_by_ffmpeg,
    ".webp": _write_by_pillow,
    ".gif": _write_by_pillow,
}
