"""Videos show the frames of a bake at their times, and follow the character."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import supple
from helpers.baked_samples import swinging_x
from supple.app.pictures.video import check_video, video, video_frames, video_size
from supple.errors import SuppleError
from supple.rig.baked_motion import BakedMotion

SMALL = (128, 96)


@pytest.fixture(scope="module")
def x() -> BakedMotion:
    return swinging_x(9)


def _pictures(path: Path) -> tuple[list[np.ndarray], list[float]]:
    """Return the pictures of an animated image, and for how many milliseconds each is shown."""
    pictures, durations = [], []
    with Image.open(path) as image:
        for k in range(getattr(image, "n_frames", 1)):
            image.seek(k)
            pictures.append(np.asarray(image.convert("RGB")).astype(int))
            durations.append(float(image.info["duration"]))
    return pictures, durations


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
def test_a_video_has_all_frames_at_their_rate(x: BakedMotion, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    figures = video(x, path, size=SMALL)
    pictures, durations = _pictures(path)
    assert figures == {"frames": 9, "rate": 30.0, "bytes": path.stat().st_size}
    assert len(pictures) == 9
    assert pictures[0].shape == (96, 128, 3)
    assert sum(durations) == pytest.approx(1000 * 9 / 30, abs=6)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_ffmpeg_reads_back_the_frames_that_were_written(
    x: BakedMotion, tmp_path: Path, suffix: str
) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="needs the extra video")
    path = tmp_path / f"x{suffix}"
    supple.video(x, path, size=SMALL, show="flesh")
    reader = ffmpeg.read_frames(str(path))
    assert next(reader)["size"] == SMALL
    read = [np.frombuffer(frame, np.uint8).reshape(96, 128, 3).astype(int) for frame in reader]
    video(x, tmp_path / "x.webp", size=SMALL, show="flesh")
    drawn, _ = _pictures(tmp_path / "x.webp")
    assert len(read) == len(drawn) == 9
    for one, other in zip(read, drawn, strict=True):
        assert np.abs(one - other).mean() < 4.0


def test_the_rig_is_on_the_left_and_the_flesh_on_the_right(x: BakedMotion, tmp_path: Path) -> None:
    stiff = np.stack([x.rig_frame(k) for k in range(x.n_frames)]).astype(np.float32)
    for name, baked in (("soft", x), ("stiff", replace(x, frames=stiff))):
        video(baked, tmp_path / f"{name}.gif", size=SMALL, clay=True)
    (soft, _), (rigid, _) = _pictures(tmp_path / "soft.gif"), _pictures(tmp_path / "stiff.gif")
    apart = []
    for picture in (rigid[4], soft[4]):
        drawn = np.abs(picture - picture[0, 0]).max(axis=2) > 60
        apart.append(np.count_nonzero(drawn[:, :64] != drawn[:, 64:]) / np.count_nonzero(drawn))
    assert apart[0] < 0.08  # other colours at the outline
    assert apart[1] > 1.5 * apart[0]


def test_the_camera_follows_a_character_that_travels(x: BakedMotion, tmp_path: Path) -> None:
    """Each frame has the character in the picture, at most half of the picture from its middle."""
    far = x.motion.roots.copy()
    far[:, 0, 3] += 30 * x.character.surface.size * np.linspace(0, 1, len(far)) ** 2
    travelling = replace(x, motion=replace(x.motion, roots=far, tracks=None), frames=x.frames)
    moved = travelling.frames + (far - x.motion.roots)[:, None, :3, 3].astype(np.float32)
    video(replace(travelling, frames=moved), tmp_path / "x.gif", size=SMALL, show="flesh")
    for picture in _pictures(tmp_path / "x.gif")[0]:
        drawn = np.abs(picture - picture[0, 0]).max(axis=2) > 40
        assert drawn.any()
        assert not drawn[:, [0, -1]].any()


def test_fast_bakes_are_shown_at_the_videos_rate_and_loops_without_their_last_frame(
    x: BakedMotion,
) -> None:
    frames, rate = video_frames(replace(x, rate=90.0), 30.0)
    assert (frames.tolist(), rate) == ([0, 3, 6], 30.0)
    frames, rate = video_frames(replace(x, loop=True), 30.0)
    assert (len(frames), rate) == (8, 30.0)


@pytest.mark.parametrize(
    "text", ["960", "961x540", "0x0", "960x540x2", "99999x540", "wide", "-2x4"]
)
def test_a_size_that_no_video_has_is_refused(text: str) -> None:
    with pytest.raises(SuppleError, match="is not the size of a video"):
        video_size(text)


def test_a_name_without_a_format_of_videos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuppleError, match=r"use one of \.mp4, \.webm, \.webp, \.gif"):
        check_video(tmp_path / "x.avi")


def test_without_the_extra_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.app.pictures.video.find_spec", lambda name: None)
    with pytest.raises(SuppleError, match=r"pip install 'supple\[video\]', or write \.webp"):
        check_video(tmp_path / "x.mp4")


def test_an_interrupted_video_leaves_the_old_file(x: BakedMotion, tmp_path: Path) -> None:
    path = tmp_path / "x.gif"
    path.write_bytes(b"old")

    def interrupted(part: float) -> None:
        if part > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        video(x, path, size=SMALL, progress=interrupted)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.gif"]


def test_a_gif_is_not_faster_than_programs_show_it(x: BakedMotion, tmp_path: Path) -> None:
    figures = video(replace(x, rate=90.0), tmp_path / "x.gif", size=SMALL, rate=90.0)
    assert figures["rate"] <= 50
    assert min(_pictures(tmp_path / "x.gif")[1]) >= 20


def test_an_animated_image_that_would_fill_the_memory_is_refused(
    x: BakedMotion, tmp_path: Path
) -> None:
    long = replace(x, frames=np.broadcast_to(x.frames[:1], (18_000, *x.frames.shape[1:])))
    with pytest.raises(SuppleError, match=r"too large; write \.mp4"):
        video(long, tmp_path / "x.webp")
