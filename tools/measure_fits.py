"""Print the tables of fits in docs/choosing.md: known factors recovered, and other targets.

    python tools/measure_fits.py shared/assets/gltf_characters [--only fox]

A synthetic target is a live bake with an anatomy file that has factors by region; `supple.fit`
gets its positions and the initial flesh. The other targets, of the fox, are not of the reduced
model that is fitted. Times are processor seconds of this process, without those of the build.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import supple
from supple.anatomy import anatomy_of
from supple.anatomy.region_entries import write_entries
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

NAMES = "stiffness", "damping"
SMALL: dict[str, Any] = {"tets": 2500, "modes": 40, "poses": 2}
LARGE: dict[str, Any] = SMALL | {"tets": 4000, "modes": 60}


@dataclass(frozen=True)
class Case:
    """A clip, and factors on stiffness and damping: of all flesh, and of a region in addition."""

    file: str
    motion: str
    region: str
    everywhere: tuple[float, float]
    local: tuple[float, float]
    build: dict[str, Any] = field(default_factory=lambda: SMALL)
    part: dict[str, Any] = field(default_factory=dict)

    @property
    def factors(self) -> list[tuple[float, float]]:
        """Factors of all flesh and of the region; the latter include the former."""
        (stiffness, damping), (more, further) = self.everywhere, self.local
        return [self.everywhere, (stiffness * more, damping * further)]


FOX = Case("Fox", "Run", "tail", (0.6, 1.6), (2.5, 0.5))
JUMP = Case("mh_heavy_male_jump", "cmu_01_01_jumps", "trunk", (0.8, 0.8), (0.6, 1.5), LARGE)
CASES = (
    Case("q_Rat", "Run", "Tail*", (1.5, 0.7), (0.4, 2.0)),
    FOX,
    Case("q_Husky", "Gallop", "Tail*", (0.8, 1.5), (0.5, 0.6)),
    replace(JUMP, part={"end": 3.0}),
    JUMP,
)


def target_of(character: Character, case: Case) -> BakedMotion:
    """Bake a clip with the factors of a case."""
    options = {"quality": "live"} | case.build | case.part
    if {case.everywhere, case.local} == {(1.0, 1.0)}:  # a file would keep violent flesh soft
        return supple.bake(character, case.motion, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "target.anatomy.json"
        local = {case.region: dict(zip(NAMES, case.local, strict=True))}
        feel = dict(zip(NAMES, case.everywhere, strict=True)) | {"regions": local}
        write_entries(path, character.name, anatomy_of(character).entries, feel)
        return supple.bake(character, case.motion, anatomy=path, **options)


def fitted(character: Character, case: Case, target: BakedMotion) -> tuple[supple.Fit, float]:
    """Return the fit of a case's regions to a target, and its processor seconds."""
    options = case.build | case.part
    supple.bake(character, case.motion, quality="live", **options)  # keeps the model
    began = process_time()
    found = supple.fit(character, target.frames, case.motion, regions=[case.region], **options)
    return found, process_time() - began


def factors_of(found: supple.Fit) -> list[tuple[float, float]]:
    """Return the factors on stiffness and damping of each region of a fit."""
    return [(row.stiffness, row.damping) for row in found.regions]


def pairs(rows: list[tuple[float, float]]) -> str:
    """Return stiffness / damping of each region, of two digits."""
    return ", ".join(" / ".join(f"{each:.2g}" for each in row) for row in rows)


def recovery(folder: Path, only: str) -> None:
    """Print the factors of synthetic targets, and the errors with which they are recovered."""
    print("| clip | target: all, region | fit | errors | distance | before | runs | s |")
    for case in CASES:
        if only.lower() not in case.file.lower():
            continue
        character = supple.load(folder / f"{case.file}.glb")
        found, seconds = fitted(character, case, target_of(character, case))
        rows, known, report = factors_of(found), case.factors, found.report
        errors = [tuple(np.abs(np.divide(*each) - 1)) for each in zip(rows, known, strict=True)]
        clip = f"{report['begin']:.3g} to {report['end']:.3g} s"
        print(
            f"| {case.file}, {case.motion}, {clip}, {report['vertices']:,} vertices, {case.region} "
            f"| {pairs(known)} | {pairs(rows)} | {pairs(errors)} | {report['distance']:.4f} "
            f"| {report['before']:.2g} | {report['runs']} | {seconds:.1f} |",
            flush=True,
        )


def others(folder: Path) -> None:
    """Print the distances of fits from targets that are not of the reduced model."""
    print("| target: factors | distance | before | runs | all, region: stiffness / damping |")
    character = supple.load(folder / f"{FOX.file}.glb")
    usual = replace(FOX, everywhere=(1.0, 1.0), local=(1.0, 1.0))
    targets = {
        "engine full": replace(FOX, build={"engine": "full", "tets": 2500}),
        "stvk": replace(usual, build=SMALL | {"kind": "stvk"}),
        "Poisson 0.3": replace(usual, everywhere=(0.5, 0.5), build=SMALL | {"poisson": 0.3}),
        "soft-skeleton": replace(usual, build={"engine": "soft-skeleton", "tets": 2500}),
    }
    for name, case in targets.items():
        found, _ = fitted(character, FOX, target := target_of(character, case))
        stiffened, rows = target.report.get("stiffness", 1), pairs(factors_of(found))
        figures = " | ".join(f"{found.report[each]:.3g}" for each in ("distance", "before", "runs"))
        words = f"{name}, {pairs(case.factors)}, stiffened {stiffened:.3g} times"
        print(f"| {words} | {figures} | {rows} |", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("assets", type=Path, help="folder of the characters")
    parser.add_argument("--only", default="", help="part of the name of characters")
    given = parser.parse_args()
    warnings.simplefilter("ignore", supple.SuppleWarning)
    recovery(given.assets, given.only)
    if given.only.lower() in FOX.file.lower():
        others(given.assets)


if __name__ == "__main__":
    main()
