"""`supple reproduce`: tables and figures of the papers, compared with our numbers.

Every item is a function ``run(folder, *, quick, progress) -> dict`` that draws NAME.png into the
folder, if it is a figure, and returns our numbers and the paper's. Complete results
appear in the output folder: NAME.png, NAME.json, and the page reproduce.md with all items there.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter
from typing import Any

from supple.errors import SuppleError
from supple.playback.progress_bar import console, first_use_message, progress_bar
from supple.progress import Progress
from supple.saving import write_whole


@dataclass(frozen=True)
class Item:
    """Table or figure of a paper."""

    #: Names in `supple.lab.reproduce`; imported when the item runs.
    module: str
    function: str
    about: str

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
        """Run the item's function."""
        function = getattr(import_module(f"supple.lab.reproduce.{self.module}"), self.function)
        return function(folder, quick=quick, progress=progress)


ITEMS = {
    "table1": Item("xu2016.table1_modes", "table1", "modes with contact and without"),
    "table2": Item("xu2016.tables", "table2", "the parts of the gorilla's step"),
    "table3": Item("xu2016.tables", "table3", "four characters in real time"),
    "fig1": Item("xu2016.character_figures", "fig1", "the gorilla in motion"),
    "fig2": Item("xu2016.character_figures", "fig2", "the bear's regions and motion"),
    "fig4": Item("xu2016.beams", "fig4", "modes of a bent and of a straight beam"),
    "fig5": Item("xu2016.fig5_contact", "run", "bases with contact constraints"),
    "fig6": Item("xu2016.fig6_alignment", "fig6", "modes that swap"),
    "fig7": Item("xu2016.fig6_alignment", "fig7", "rotated poses"),
    "fig8": Item("xu2016.character_figures", "fig8", "bases at rest and in contact, aligned"),
    "fig9": Item("xu2016.character_figures", "fig9", "the alignment tree of the arm"),
    "fig10": Item("xu2016.fig10_cubature", "fig10", "basis and cubature between two poses"),
    "fig11": Item("xu2016.fig11_local", "run", "localised bases"),
    "fig12": Item("xu2016.character_figures", "fig12", "the arm by inverse kinematics"),
    "fig13": Item("xu2016.character_figures", "fig13", "the X, bent by one parameter"),
    "fig14": Item("xu2016.fig14_pca", "run", "one basis for all poses"),
    "fig15": Item("xu2016.fig15_coarse", "run", "a coarse full simulation at equal time"),
    "projection": Item("xu2016.tables", "projection", "a reduced system reassembled in full"),
    "tradeoff": Item("xu2016.speed_claims", "tradeoff", "speed and error with fewer modes"),
    "refitting": Item("xu2016.speed_claims", "refitting", "tets fitted anew at each frame"),
    "rig-space": Item("xu2016.speed_claims", "rig_space", "assembly of rig-space physics"),
    "weights": Item("xu2016.method_claims", "far_weight_figures", "weights far from all poses"),
    "inertia": Item("xu2016.method_claims", "inertial_neighbours", "inertia with neighbours"),
    "reprojection": Item("xu2016.method_claims", "reprojection", "re-projection damps"),
    "printed": Item("xu2016.method_claims", "printed_method", "the printed method and ours"),
    "beam": Item("xu2016.beams", "beam", "the bent beam, reduced against full"),
    "barbic2005-fig1": Item("barbic2005.haptic_figure", "fig1", "a bridge touched by a ball"),
    "barbic2005-fig2": Item("barbic2005.shape_figures", "fig2", "cubes and fixed vertices"),
    "barbic2005-fig3": Item("barbic2005.shape_figures", "fig3", "the bodies' sizes"),
    "barbic2005-fig4": Item("barbic2005.shape_figures", "fig4", "tower and heart, deformed"),
    "barbic2005-fig5": Item("barbic2005.cost_tables", "fig5", "polynomial coefficients"),
    "barbic2005-fig6": Item("barbic2005.shape_figures", "fig6", "modes and derivatives"),
    "barbic2005-fig7": Item("barbic2005.shape_figures", "fig7", "extreme shapes"),
    "barbic2005-fig8": Item("barbic2005.cost_tables", "fig8", "modal derivatives"),
    "barbic2005-fig10": Item("barbic2005.sketch_figure", "fig10", "a basis from a sketch"),
    "barbic2005-fig11": Item("barbic2005.cost_tables", "fig11", "the cost of a step"),
    "barbic2005-fig12": Item("barbic2005.swing_figure", "fig12", "a spoon's impulse response"),
    "hahn2013-table1": Item("hahn2013.solvers", "table1", "solvers in rig space"),
    "hahn2013-fig2": Item("hahn2013.figures", "fig2", "a shaken trunk"),
    "hahn2013-fig3": Item("hahn2013.figures", "fig3", "errors against rig-space physics"),
    "hahn2013-fig4": Item("hahn2013.figures", "fig4", "a wrestler with and without dynamics"),
    "hahn2013-fig5": Item("hahn2013.figures", "fig5", "energy of skinned interiors"),
    "hahn2013-skinning": Item("hahn2013.algorithm1", "skinning", "Algorithm 1"),
    "hahn2013-jacobians": Item("hahn2013.solvers", "jacobian_updates", "deferred Jacobian updates"),
    "tapia2021-table1": Item("tapia2021.table1_costs", "table1", "the cost of a step"),
    "tapia2021-fig1": Item("tapia2021.contact_figures", "fig1", "soft skeletons"),
    "tapia2021-fig2": Item("tapia2021.body_figures", "fig2", "skin at rest"),
    "tapia2021-fig3": Item("tapia2021.contact_figures", "fig3", "contact on rigid and soft flesh"),
    "tapia2021-fig4": Item("tapia2021.body_figures", "fig4", "tets of the flesh"),
    "tapia2021-fig5": Item("tapia2021.body_figures", "fig5", "handles"),
    "tapia2021-fig6": Item("tapia2021.contact_figures", "fig6", "at rest, and pushed"),
    "tapia2021-fig7": Item("tapia2021.body_figures", "fig7", "inertia of the flesh"),
    "tapia2021-fig8": Item("tapia2021.contact_figures", "fig8", "a hand slides over bars"),
    "tapia2021-fig9": Item("tapia2021.body_figures", "fig9", "a motion tracked by springs"),
    "tapia2021-fig10": Item("tapia2021.contact_figures", "fig10", "sliding fingertips"),
    "tapia2021-fig12": Item("tapia2021.body_figures", "fig12", "two limp bodies"),
    "tapia2021-fig13": Item("tapia2021.pressed_bodies", "fig13", "reduced against all tets"),
    "tapia2021-fig14": Item("tapia2021.pressed_bodies", "fig14", "handles and modes, a hand"),
    "tapia2021-fig15": Item("tapia2021.pressed_bodies", "fig15", "handles and modes, a body"),
    "tapia2021-fig16": Item("tapia2021.pressed_bodies", "fig16", "a pin and the handles' density"),
    "tapia2021-points": Item("tapia2021.build_studies", "points", "cubature points per handle"),
    "tapia2021-betas": Item("tapia2021.build_studies", "betas", "a body's shape from a scan"),
    "tapia2021-modes": Item("tapia2021.table1_costs", "modes", "the cost of modes"),
}
#: Items by paper; those of xu2016 have no prefix.
_OTHERS = ("barbic2005", "hahn2013", "tapia2021")
GROUPS = {"xu2016": tuple(name for name in ITEMS if not name.startswith(_OTHERS))} | {
    paper: tuple(name for name in ITEMS if name.startswith(f"{paper}-")) for paper in _OTHERS
}


def chosen_items(what: Sequence[str]) -> list[str]:
    """Return the named items without duplicates in the papers' order; by default all.

    "barbic2005-fig12" may be written barbic2005/fig12, "Barbič fig. 12" and the like.
    """
    spellings, names = _spellings(), [*GROUPS, *ITEMS]
    chosen: set[str] = set()
    for name in what or GROUPS:
        simple = _simple(name)
        if simple not in spellings:
            near = [item for item in ITEMS if simple and item.endswith(f"-{simple}")]
            near = near or difflib.get_close_matches(name.lower(), names, 3, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {_list(names)}"
            raise SuppleError(f'no item "{name}" to reproduce; {hint}')
        chosen.update(spellings[simple])
    return [name for name in ITEMS if name in chosen]


def _spellings() -> dict[str, tuple[str, ...]]:
    """Return the items by accepted spelling."""
    spellings: dict[str, tuple[str, ...]] = {}
    for paper, items in GROUPS.items():
        for prefix in (paper, paper.rstrip("0123456789")):
            spellings[prefix] = items
            spellings |= {_simple(f"{prefix}{item.removeprefix(paper)}"): (item,) for item in items}
    return spellings | {_simple(item): (item,) for item in ITEMS}


def _simple(name: str) -> str:
    """Return the letters and digits of a text, without accents."""
    plain_letters = unicodedata.normalize("NFKD", name.lower())
    return re.sub(r"[^a-z0-9]", "", plain_letters).replace("figure", "fig")


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def run_reproduce(
    what: Sequence[str], output: Path, *, quick: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Run items or papers, by default all; write them into a folder; return results by name.

    `quick` uses small bodies and few steps. An error in one item is raised after the others ran.
    """
    from supple.app.report.figure_tables import PAGE, print_item, write_page

    names = chosen_items(what)
    _check_folder(output)
    first_use_message(quiet)
    figures: dict[str, Any] = {}
    errors: list[str] = []
    with progress_bar(quiet) as bar:
        for name in names:
            task = bar.add_task(f"{name}: {ITEMS[name].about}", total=1.0)

            def progress(part: float, text: str, task: Any = task, name: str = name) -> None:
                bar.update(task, completed=round(part, 2), description=f"{name}: {text}")

            try:
                figures[name] = _run_item(name, output, quick, progress)
            except SuppleError as error:
                errors.append(f"{name}: {error}")
                bar.update(task, description=f"{name}: failed")
                continue
            write_page(output, list(ITEMS))  # after each item, in case the next one is interrupted
            bar.update(task, completed=1.0, description=name)
    if not quiet:
        for name, results in figures.items():
            print_item(name, results, output)
    if figures and not quiet:
        console.print(f"wrote {output / PAGE}")
    if errors:
        raise SuppleError("; ".join(errors))
    return figures


def _check_folder(output: Path) -> None:
    """Raise a `SuppleError` for a folder that cannot be written."""
    if output.exists() and not output.is_dir():
        raise SuppleError(f"{output}: is a file; choose a folder with --output")
    missing = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise SuppleError(
            f"{output}: cannot be written to ({error.strerror}); choose another --output"
        ) from None
    finally:  # the first result creates it again
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()


def _run_item(name: str, output: Path, quick: bool, progress: Progress) -> dict[str, Any]:
    """Run an item in a temporary folder, and copy its files when it is complete."""
    began = perf_counter()
    with TemporaryDirectory(prefix="supple-") as folder:
        progress(0.0, "starting")
        try:
            results = ITEMS[name].run(Path(folder), quick=quick, progress=progress)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("supple"):
                raise
            raise SuppleError(f"is not part of this version (no module {error.name})") from None
        general = {"title": _title(name), "quick": quick, "seconds": perf_counter() - began}
        results = plain(general | dict(results))
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SuppleError(f"{output}: cannot be made ({error.strerror})") from None
        pictures = sorted(Path(folder).glob("*.png"))
        results["pictures"] = [picture.name for picture in pictures]
        for picture in pictures:
            write_whole(output / picture.name, picture.read_bytes())
        text = json.dumps(results, indent=2, allow_nan=False)
        write_whole(output / f"{name}.json", text.encode())
    return results


def _title(name: str) -> str:
    """Return the default title of an item, as the papers write it."""
    paper, dash, short = name.rpartition("-")
    word, number = short.rstrip("0123456789"), short.lstrip("abcdefghijklmnopqrstuvwxyz")
    kind = {"fig": "Fig.", "table": "Table"}.get(word, word.capitalize())
    title = f"{paper} {kind.lower()} {number}" if dash else f"{kind} {number}"
    return title.strip() + f": {ITEMS[name].about}"


def plain(value: Any) -> Any:
    """Return a value for JSON with six digits of each number; None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):  # a NumPy array or number
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value
