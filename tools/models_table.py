"""Write README's table of the four characters of Xu and Barbič 2016.

docs/models.json has the figures of `supple build NAME --json`:

    python tools/models_table.py --build    # builds the characters, and writes both files
    python tools/models_table.py            # writes README.md only
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README, FIGURES = ROOT / "README.md", ROOT / "docs" / "models.json"
NAMES = ("x", "arm", "bear", "gorilla")
HEADINGS = (
    "",
    "tets",
    "poses",
    "modes",
    "cubature",
    "elastic error",
    "halfway between poses",
    "inertial error",
    "frequencies halfway ×",
    "MB (paper)",
    "built in",
)
#: The table in README.md, from its headings to the first line after it.
TABLE = re.compile(r"\| \| tets \| poses \|.*?\n(?=\n)", re.DOTALL)


def figures_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a build that the table shows."""
    elastic = report["elastic_error"]
    return {
        "tets": report["tets"],
        "poses": report["poses"],
        "modes": report["modes"],
        "elastic_tets": report["elastic_tets"],
        "inertial_vertices": report["inertial_vertices"],
        "elastic_error": elastic["held_out"],
        "halfway": elastic["between_poses"],
        "inertial_error": report["inertial_error"]["held_out"],
        "frequency_ratio": report["mid_pose_frequency_ratio"],
        "megabytes": report["model_mb"],
        "seconds": report["seconds"],
    }


def built(name: str) -> dict[str, Any]:
    """Build a character as `supple build` does, and return its figures."""
    from supple.app.building import run_build

    with TemporaryDirectory() as folder:
        return figures_of(run_build(name, Path(folder) / f"{name}.supple", quiet=True))


def table(figures: dict[str, dict[str, Any]], paper: dict[str, float]) -> str:
    """Return the lines of the table."""
    lines = [f"| {' | '.join(HEADINGS)} |".replace("|  |", "| |"), "|" + "---|" * len(HEADINGS)]
    for name in NAMES:
        row = figures[name]
        cells = (
            name,
            f"{row['tets']:,}",
            f"{row['poses']}",
            f"{row['modes']}",
            f"{row['elastic_tets']} + {row['inertial_vertices']}",
            f"{100 * row['elastic_error']:.2f} %",
            f"{100 * row['halfway']:.2f} %",
            f"{100 * row['inertial_error']:.2f} %",
            f"{row['frequency_ratio']:.3f}",
            f"{row['megabytes']:.1f} ({paper[name]:g})",
            f"{row['seconds']:.0f} s",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def paper_megabytes() -> dict[str, float]:
    """Return the megabytes in the paper's Table 3."""
    from supple.scenes.characters.character_scene import scene

    return {name: float(scene(name).paper.megabytes or 0.0) for name in NAMES}


def readme() -> str:
    """Return the text of README.md with the table of the kept figures."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    text = README.read_text(encoding="utf-8")
    if len(TABLE.findall(text)) != 1:
        raise SystemExit(f"{README.name}: has no table that begins with | | tets | poses |")
    return TABLE.sub(lambda _: table(figures, paper_megabytes()), text)


def main() -> None:
    """Build the characters if asked to, and write README.md."""
    parser = argparse.ArgumentParser(description="Write README's table of characters.")
    parser.add_argument("--build", action="store_true", help="build them; takes minutes")
    if parser.parse_args().build:
        figures = {name: built(name) for name in NAMES}
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")


if __name__ == "__main__":
    main()
