"""Poses arrive live, from this computer alone; what is no pose is dropped."""

from __future__ import annotations

import json
import socket
import time

import numpy as np
import pytest

from helpers.smpl_samples import body_fields, expected, write_body
from supple.dynamics.root_frame import to_world
from supple.errors import SuppleError
from supple.formats.load import load
from supple.playback.streamed_pose import LARGEST_DATAGRAM, PoseStream, parsed_pose

RNG = np.random.default_rng(2)
TURNS, PLACE = 0.5 * RNG.standard_normal((16, 3)), np.array([0.1, 1.2, -0.3])


@pytest.fixture
def hand(tmp_path):
    return load(write_body(tmp_path / "hand.npz", body_fields(16)))


def test_a_pose_that_is_fed_moves_the_body_by_its_formula(hand):
    stream = PoseStream(hand)
    rest = stream.latest()
    assert np.array_equal(rest[0], hand.rig.rest_pose)
    assert np.array_equal(rest[1], np.eye(4))
    stream.feed(TURNS, PLACE)
    pose, root = stream.latest()
    wanted = expected(body_fields(16), TURNS, np.zeros(10), PLACE)
    np.testing.assert_allclose(to_world(root, hand.rig(pose)), wanted, atol=1e-12)


def test_datagrams_on_this_computer_arrive_and_damaged_ones_are_dropped(hand):
    told = []
    with PoseStream(hand, port=0, on_pose=lambda pose, root: told.append(root)) as stream:
        assert stream.address is not None
        assert stream.address[0] == "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in (
                b"nonsense",
                b"{" * 5000,
                json.dumps({"pose": TURNS.ravel().tolist(), "trans": PLACE.tolist()}).encode(),
                np.full(48, np.nan, "<f4").tobytes(),
                TURNS.astype("<f4").tobytes(),
            ):
                sender.sendto(data, stream.address)
        until = time.monotonic() + 5
        while stream.received + stream.dropped < 5 and time.monotonic() < until:
            time.sleep(0.01)
        assert (stream.received, stream.dropped) == (2, 3)
        assert len(told) == 2
        assert stream.failure is None
        np.testing.assert_allclose(told[0][:3, 3] - told[1][:3, 3], PLACE, atol=1e-6)
    assert stream.address is None


def test_listening_goes_on_where_a_callback_fails(hand):
    def fails(pose, root):
        raise ValueError("not now")

    with PoseStream(hand, port=0, on_pose=fails) as stream:
        assert stream.address is not None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(2):
                sender.sendto(TURNS.astype("<f4").tobytes(), stream.address)
        until = time.monotonic() + 5
        while stream.received < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert stream.received == 2
    assert isinstance(stream.failure, ValueError)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"pose": 3}',
        b'{"pose": [1, 2]}',
        b'{"pose": [1, 2, "3"]}',
        b'{"pose": [1, 2, NaN]}',
        b'{"pose": [1, 2, 1e400]}',
        b'{"pose": [1, 2, true]}',
        b'{"pose": [0, 0, 0], "trans": [1]}',
        b'{"pose": [' + b"[" * 4000 + b"]}",
        b"abc",
        np.zeros(4, "<f4").tobytes(),
        np.array([1e9, 0, 0], "<f4").tobytes(),
        bytes(LARGEST_DATAGRAM + 4),
    ],
)
def test_no_datagram_but_a_pose_is_read(data):
    assert parsed_pose(data, 1) is None


def test_wrong_poses_and_ports_are_refused(hand):
    stream = PoseStream(hand)
    for turns in (TURNS[:-1], np.full((16, 3), np.inf)):
        with pytest.raises(SuppleError, match=r"\(16, 3\)"):
            stream.feed(turns)
    first = PoseStream(hand, port=0)
    assert first.address is not None
    with first, pytest.raises(SuppleError, match="cannot be opened"):
        PoseStream(hand, port=first.address[1])
    with pytest.raises(SuppleError, match="0 to 65535"):
        PoseStream(hand, port=70_000)
