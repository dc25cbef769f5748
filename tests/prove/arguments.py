"""Calls of the public API and words of commands, as JSON, so that they mutate as files do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from prove.mutations import WORDS, changed_tree, few, written_json

__all__ = ["calls", "changed_call", "changed_command", "commands", "run_call", "run_command"]


@cache
def _bar() -> Any:
    from helpers.build_samples import stepped_model

    return stepped_model("bar")


@cache
def _body() -> Any:
    from supple.engines.stvk.model import StvkModel
    from supple.scenes.bodies.beam import beam

    return StvkModel.build(beam(cells=(2, 1, 1)), modes=3)


def _stepped(dt: Any = 1 / 90, step: Any = None, reset: Any = None, **options: Any) -> Any:
    from supple.engines.factory import Simulator

    simulator = Simulator(_bar(), dt, **options)
    if reset is not None:
        simulator.reset(*reset)
    for _ in range(2):
        simulator.step(*step)
    return simulator.surface()


def _set(**attributes: Any) -> Any:
    from supple.engines.pose_space.simulator import PoseSpaceSimulator

    simulator = PoseSpaceSimulator(_bar())
    for name, value in attributes.items():
        if hasattr(type(simulator), name):
            setattr(simulator, name, value)
    simulator.step([0.1])
    return simulator.surface()


def _crowd(n: Any, dt: Any, poses: Any, roots: Any, **options: Any) -> Any:
    from supple.engines.pose_space.crowd import Crowd

    crowd = Crowd(_bar(), n, dt, **options)
    crowd.step(poses, roots)
    return crowd.surfaces()


def _obstacle(make: dict[str, Any], kind: str) -> Any:
    import supple

    known = {"Plane", "Sphere", "Capsule", "Box", "Convex"}
    made = getattr(supple, kind if isinstance(kind, str) and kind in known else "Sphere")(**make)
    made.distances(np.eye(3))
    return made


def _touching(kind: str, make: dict[str, Any], friction: Any, stiffness: Any) -> Any:
    from supple.engines.pose_space.simulator import PoseSpaceSimulator

    thing = _obstacle(make, kind)
    simulator = PoseSpaceSimulator(
        _bar(), obstacles=[thing], friction=friction, obstacle_stiffness=stiffness
    )
    simulator.step([0.1])
    return simulator.surface()


def _thrown(make: dict[str, Any], **options: Any) -> Any:
    import supple

    return supple.RigidObject(supple.Sphere(**make), **options)


def _elastic(dt: Any, force: Any, **options: Any) -> Any:
    from supple.engines.stvk.simulator import StvkSimulator

    simulator = StvkSimulator(_body(), dt, **options)
    simulator.step(force)
    return simulator.surface()


def _ball(hand: Any, **options: Any) -> Any:
    from supple.engines.stvk.haptics.haptic_ball import HapticBall
    from supple.engines.stvk.simulator import StvkSimulator

    return HapticBall(StvkSimulator(_body(), 1 / 1000), **options).step(hand)


def _surface(vertices: Any, triangles: Any) -> Any:
    from supple.mesh.surface import SurfaceMesh

    mesh = SurfaceMesh(vertices, triangles)
    mesh.defects()
    return mesh


def _tets(vertices: Any, tets: Any, material: dict[str, Any]) -> Any:
    from supple.elastic.body import ElasticBody
    from supple.elastic.material import Material
    from supple.mesh.tets import TetMesh

    return ElasticBody(TetMesh(vertices, tets), Material(**material)).vertex_masses()


def _motion(times: Any, poses: Any, roots: Any, at: Any, rate: Any, name: Any) -> Any:
    from supple.rig.motion.motion import Motion

    motion = Motion(times, poses, roots, name=name)
    motion.at(at)
    return motion.resample(rate) if rate is None or motion.duration < 1e3 else motion


def _rig(names: Any, parents: Any, offsets: Any, pose: Any) -> Any:
    from supple.rig.skeleton.joint_pose import JointPose
    from supple.rig.skeleton.joints import Skeleton

    skeleton = Skeleton(names, parents, offsets)
    JointPose(skeleton)
    return skeleton.rest_world()


def _player(motion: Any, steps: Any, **options: Any) -> Any:
    from supple.engines.pose_space.simulator import PoseSpaceSimulator
    from supple.playback.player import Player

    player = Player(PoseSpaceSimulator(_bar()), motion, **options)
    return player.step()


CALLS: dict[str, Callable[..., Any]] = {
    "simulator": _stepped,
    "settings": _set,
    "crowd": _crowd,
    "touching": _touching,
    "obstacle": _obstacle,
    "thrown": _thrown,
    "elastic": _elastic,
    "ball": _ball,
    "surface": _surface,
    "tets": _tets,
    "motion": _motion,
    "rig": _rig,
    "player": _player,
}

EYE = np.eye(4).tolist()
CORNERS = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
SOUND: list[dict[str, Any]] = [
    {
        "call": "simulator",
        "with": {
            "dt": 0.01,
            "step": [[0.2], EYE, {"3": [0.0, 1.0, 0.0]}],
            "reset": [[0.1], EYE],
            "integrator": "newmark",
            "iterations": 2,
            "substeps": 2,
            "alpha": 0.5,
            "beta": 0.01,
            "gravity": [0, -9.81, 0],
            "gravity_mode": "absolute",
            "acceleration_limit": 1000.0,
            "displacement_limit": 0.25,
            "look_ahead": 1,
            "negligible_weight": 0.02,
            "stiffness": 2.0,
            "friction": 0.5,
            "frames": "followed",
            "transport": True,
        },
    },
    {"call": "simulator", "with": {"step": [[0.2], EYE, {"3": [0.0, 1.0, 0.0]}]}},
    {
        "call": "settings",
        "with": {
            "stiffness": 2.0,
            "friction": 0.3,
            "gravity_mode": "none",
            "q": [0.0] * 8,
            "velocity": [0.1] * 8,
            "local_stiffness": [2.0] * 144,
            "obstacles": [],
        },
    },
    {"call": "crowd", "with": {"n": 2, "dt": 0.01, "poses": [[0.1], [0.2]], "roots": [EYE, EYE]}},
    {
        "call": "touching",
        "with": {
            "kind": "Sphere",
            "make": {"centre": [0.5, 0.2, 0.1], "radius": 0.2},
            "friction": 0.4,
            "stiffness": 1e5,
        },
    },
    {
        "call": "touching",
        "with": {
            "kind": "Plane",
            "make": {"point": [0, 0.02, 0], "normal": [0, 1, 0]},
            "friction": 0.4,
            "stiffness": None,
        },
    },
    {
        "call": "obstacle",
        "with": {"kind": "Capsule", "make": {"start": [0, 0, 0], "end": [1, 0, 0], "radius": 0.2}},
    },
    {
        "call": "obstacle",
        "with": {
            "kind": "Box",
            "make": {"centre": [0, 0, 0], "half": [1, 1, 1], "turn": np.eye(3).tolist()},
        },
    },
    {"call": "obstacle", "with": {"kind": "Convex", "make": {"points": CORNERS}}},
    {
        "call": "thrown",
        "with": {
            "make": {"centre": [0, 0, 0], "radius": 0.2},
            "mass": 1.0,
            "density": 500.0,
            "place": EYE,
            "velocity": [0, 0, 0],
            "spin": [0, 0, 1],
            "kinematic": False,
            "name": "ball",
        },
    },
    {
        "call": "elastic",
        "with": {"dt": 0.001, "force": [0.1, 0, 0], "iterations": 2, "alpha": 0.1, "beta": 0.01},
    },
    {
        "call": "ball",
        "with": {
            "hand": [0.1, 0.2, 0.1],
            "radius": 0.05,
            "mass": 0.1,
            "position": [0.1, 0.3, 0.1],
            "leaf": 4,
        },
    },
    {
        "call": "surface",
        "with": {"vertices": CORNERS, "triangles": [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]},
    },
    {
        "call": "tets",
        "with": {
            "vertices": CORNERS,
            "tets": [[0, 1, 2, 3]],
            "material": {"kind": "stvk", "young": 2e4, "poisson": 0.4, "density": 1000.0},
        },
    },
    {
        "call": "tets",
        "with": {
            "vertices": CORNERS,
            "tets": [[0, 1, 2, 3]],
            "material": {
                "kind": "orthotropic",
                "young": [1e4, 2e4, 3e4],
                "poisson": [0.3, 0.3, 0.3],
                "axes": np.eye(3).tolist(),
                "shear": [1e4, 1e4, 1e4],
                "saturation": 1e4,
            },
        },
    },
    {
        "call": "motion",
        "with": {
            "times": [0, 0.1, 0.2],
            "poses": [[0], [1], [2]],
            "roots": [EYE, EYE, EYE],
            "at": 0.15,
            "rate": 30,
            "name": "go",
        },
    },
    {
        "call": "rig",
        "with": {
            "names": ["a", "b"],
            "parents": [-1, 0],
            "offsets": [[0, 0, 0], [0, 1, 0]],
            "pose": [0.0] * 6,
        },
    },
    {
        "call": "player",
        "with": {
            "motion": "sweep",
            "steps": 2,
            "loop": True,
            "start": 0.1,
            "end": 1.0,
            "multiple": 1,
        },
    },
]


def calls() -> list[bytes]:
    """Return sound calls."""
    return [json.dumps(each).encode() for each in SOUND]


def changed_call(data: bytes, rng: Random) -> bytes:
    """Change what a function is called with."""
    tree = json.loads(data)
    tree["with"] = changed_tree(tree["with"], rng, 3)
    return written_json(tree)


def _argument(value: Any, key: str = "") -> Any:
    """Give forces on vertices their numbers, which JSON has as texts."""
    if isinstance(value, list):
        return [_argument(each) for each in value]
    if isinstance(value, dict) and value and all(k.isdecimal() and len(k) < 20 for k in value):
        return {int(k): each for k, each in value.items()}
    return value


def run_call(path: Path) -> Any:
    """Make a call; what Python itself refuses, such as an option that is not there, is refused."""
    from supple.errors import SuppleError

    try:
        tree = json.loads(path.read_bytes())
        function, told = CALLS[tree["call"]], tree["with"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise SuppleError("no call") from None
    if not isinstance(told, dict):
        raise SuppleError("no call")
    try:
        return function(**{name: _argument(value) for name, value in told.items()})
    except (TypeError, AttributeError) as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        ours = trace is not None and "/tests/prove/" in trace.tb_frame.f_code.co_filename
        if ours or re.search(
            r"unexpected keyword|required positional|required keyword", str(error)
        ):
            raise SuppleError("Python refuses it") from None
        raise


# Commands


OPTIONS: dict[str, list[list[str]]] = {
    "info": [["--unit", "cm"], ["--json"], ["--quiet"], ["--motion", "a.npz"], ["--betas", "1,2"]],
    "build": [
        ["--tets", "60"], ["--modes", "4"], ["--poses", "1"], ["--young", "2e4"],
        ["--poisson", "0.4"], ["--material", "stvk"], ["--regions", "none"], ["--basis", "modes"],
        ["--unit", "m"], ["--anatomy", "none"], ["--engine", "pose-space"], ["--ground", "0"],
        ["--contacts", "none"], ["--free", "head*"], ["-o", "out.supple"], ["--quiet"],
    ],
    "bake": [
        ["--tets", "60"], ["--modes", "4"], ["--poses", "1"], ["--young", "2e4"], ["--rate", "5"],
        ["--from", "0"], ["--to", "0.2"], ["--loop"], ["--flesh", "soft"], ["--damping", "1"],
        ["--gravity", "0,-9,0"], ["--obstacle", "sphere:0,0,0,0.1"], ["--ground", "-2"],
        ["--friction", "0.2"], ["--error", "0.1"], ["--motion", "clip"], ["--anatomy", "none"],
        ["-o", "out.glb"], ["--quiet"], ["--json"], ["--all"], ["--stiffness", "a.json"],
    ],
    "curves": [["--free", "head*"], ["-o", "out.csv"], ["--rate", "5"], ["--to", "0.2"]],
}  # fmt: skip


def commands() -> list[bytes]:
    """Return sound commands: each alone, and with each of its options."""
    found = []
    for name, options in OPTIONS.items():
        found += [[name, "a.glb", *some] for some in options]
    return [json.dumps(each).encode() for each in found]


def changed_command(data: bytes, rng: Random) -> bytes:
    """Change the words of a command, most often what stands behind an option."""
    words = json.loads(data)
    for _ in range(few(rng, 3)):
        at = rng.randrange(len(words))
        if at == 0 and rng.random() < 0.9:
            at = len(words) - 1
        way = rng.randrange(6)
        if way == 0:
            del words[at]
        elif way in (1, 2):
            values = (*WORDS, "-1", "0", "nan", "1e300", "2147483648", "1" + "0" * 30)
            words[at] = rng.choice(values).replace("\0", "")
        elif way == 3 and words and words[0] in OPTIONS:
            words += rng.choice(OPTIONS[words[0]])
        elif way == 4:
            words[at:at] = [
                rng.choice(("--help", "--", "-o", "--json", "--version", "-", "--modes"))
            ]
        else:
            words[at] = words[at] + rng.choice((" ", "x", ",", ":", "=", "\n", "0", "%s"))
        if not words:
            return b"[]"
    return json.dumps(words).encode()


#: Commands that take minutes, or wait for somebody: only their help is tried.
LONG = {"view", "demo", "bench", "reproduce", "compile", "scene", "stvk"}


class Crash(Exception):
    """A command ended in something else than a status and a line."""


def _no_build(*arguments: Any, **options: Any) -> Any:
    from supple.errors import SuppleError

    raise SuppleError("building begins, which would take seconds")


def run_command(path: Path) -> Any:
    """Run a command in a folder with a small character in it, up to where it would build."""
    from helpers.commands import run_here
    from helpers.gltf_builder import skinned_octahedron, turn
    from supple.engines.engine import Engine
    from supple.errors import SuppleError

    try:
        words = [str(word) for word in json.loads(path.read_bytes())]
    except (TypeError, ValueError):
        raise SuppleError("no command") from None
    if words and words[0] in LONG and "--help" not in words:
        raise SuppleError("not tried")
    home = path.parent / "command"
    home.mkdir(exist_ok=True)
    character = skinned_octahedron()
    character.animate(3, "rotation", [0, 0.5], [turn(0, 0), turn(0, 1)])
    character.save_glb(home / "a.glb")
    here = os.getcwd()
    os.chdir(home)
    os.environ["SUPPLE_CACHE"] = str(home / "cache")
    builds, Engine.build_model = Engine.build_model, _no_build  # type: ignore[method-assign]
    try:
        ended = run_here(*words)
    finally:
        Engine.build_model = builds  # type: ignore[method-assign]
        os.chdir(here)
        for file in home.iterdir():
            if file.is_file():
                file.unlink()
    if ended.returncode not in (0, 1, 2):
        raise Crash(f"status {ended.returncode}")
    if ended.returncode == 1:
        lines = [line for line in ended.stderr.splitlines() if line.startswith("supple: ")]
        errors = [line for line in lines if not line.startswith("supple: warning: ")]
        if len(errors) != 1 or "Traceback" in ended.stderr:
            raise Crash(f"status 1 and {ended.stderr[-200:]!r}")
    return None
