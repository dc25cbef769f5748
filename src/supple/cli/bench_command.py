"""The commands `supple bench …`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from supple.app.options import EngineName
from supple.cli.common_options import DISPLAY, Display, Flag, Numbers, Shown
from supple.engines.engine import FIRST_ENGINE
from supple.errors import SuppleError

#: Names of what else is measured.
COMMANDS = (
    "builds",
    "growth",
    "elastic",
    "rig",
    "rig-space",
    "soft-skeleton",
    "reduction",
    "bake",
    "stvk",
)


@dataclass(frozen=True)
class BudgetWords:
    """Options of `--budget`."""

    motion: str | None = None
    """With --budget: a motion of each character; by default the one that supple bake picks."""
    seconds: float | None = None
    """With --budget: seconds from its start that are played, 1 by default."""
    tets: int | None = None
    """With --budget: tets in place of those that supple bake makes."""
    modes: int | None = None
    """With --budget: modes in place of those of supple bake."""
    poses: int | None = None
    """With --budget: most poses in place of those of supple bake."""
    cubature: int | None = None
    """With --budget: cubature tets for each mode, 3 by default."""
    picture: Path | None = None
    """With --budget: a .png file to draw the parts into."""

    def refuse(self) -> None:
        """Refuse options that mean nothing without --budget."""
        for name, value in vars(self).items():
            if value is not None:
                raise SuppleError(f"--{name} is for supple bench --budget")


SPLITTING = BudgetWords()
Splitting = Annotated[BudgetWords, Parameter(name="*")]

bench = App(name="bench", help="Measure Supple on this machine, beside other software.")


@bench.default
def step(
    *scenes: str,
    engine: EngineName = FIRST_ENGINE,
    model: Path | None = None,
    steps: int = 5_000,
    fidelity: Flag = False,
    parts: Flag = False,
    steady: int | None = None,
    budget: Flag = False,
    splitting: Splitting = SPLITTING,
    display: Shown = DISPLAY,
) -> None:
    """Time real-time steps of the built-in characters on one core, beside the paper's.

    Parameters
    ----------
    scenes
        Any of arm, x, bear and gorilla; by default all. Their models are built once and kept.
        With --budget files of characters, too.
    model
        A .supple file of your own to time instead.
    steps
        How many steps of its motion to time.
    fidelity
        Also compare with the unreduced simulation; takes minutes a scene.
    parts
        Instead, time the parts of a pose-space step, beside what this machine could do.
    steady
        Instead, take so many steps, and count those that are late beside equal loops of arithmetic.
    budget
        Instead, split the error of characters as supple bake makes them into its parts: time step,
        basis, cubature, limits and others. Takes minutes a character; a run that was ended goes on
        where it was.
    """
    asked = {"--parts": parts, "--steady": steady is not None, "--budget": budget}
    asked |= {"--fidelity": fidelity, "--model": budget and model is not None}
    both = [name for name, given in asked.items() if given]
    if len(both) > 1:
        raise SuppleError(f"{both[0]} and {both[1]}; give one or the other")
    if budget:
        _budget(scenes, engine, splitting, display)
        return
    splitting.refuse()
    if parts or steady is not None:
        _steps_in_detail(scenes, engine, model, steps, steady, display)
        return
    from supple.engines.engine import engine_named
    from supple.lab.bench.step_bench import measure, table
    from supple.scenes.characters.character_scene import SCENES

    if "free" in engine_named(engine, "character").build_options:
        if fidelity:
            raise SuppleError(f"--fidelity is for pose-space; supple bench {engine} has its own")
        rig_space(*scenes, model=model, steps=steps, display=display)
        return
    if engine == "soft-skeleton":
        if fidelity:
            raise SuppleError(f"--fidelity is for pose-space; supple bench {engine} has its own")
        soft_skeleton(*scenes, model=model, steps=steps, display=display)
        return
    for name in scenes:  # a misspelt command is taken for a scene
        near = get_close_matches(name, COMMANDS, 1)
        if near and not get_close_matches(name, SCENES, 1, 0.5):
            raise SuppleError(f'no scene "{name}"; did you mean supple bench {near[0]}?')
    rows = measure(
        scenes, engine=engine, model=model, steps=steps, fidelity=fidelity, quiet=display.silent
    )
    display.show(rows, table)


def _steps_in_detail(
    scenes: tuple[str, ...],
    engine: str,
    model: Path | None,
    steps: int,
    steady: int | None,
    display: Display,
) -> None:
    """Show the parts of steps or, with `steady`, how even they are."""
    from supple.lab.bench import steady_bench, step_parts

    if steady is not None:
        rows = steady_bench.measure(
            scenes, engine=engine, model=model, steps=steady, quiet=display.silent
        )
        display.show(rows, steady_bench.table)
        return
    if engine != FIRST_ENGINE:
        raise SuppleError(f"--parts is for {FIRST_ENGINE}, not {engine}")
    rows = step_parts.measure(scenes, model=model, steps=steps, quiet=display.silent)
    display.show(rows, step_parts.table)


def _budget(given: tuple[str, ...], engine: str, words: BudgetWords, display: Display) -> None:
    from supple.lab.bench import budget_bench

    if engine != FIRST_ENGINE:
        raise SuppleError(f"--budget is for {FIRST_ENGINE}, not {engine}")
    told = budget_bench.BudgetOptions(
        motion=words.motion,
        seconds=1.0 if words.seconds is None else words.seconds,
        tets=words.tets,
        modes=words.modes,
        most_poses=words.poses,
        cubature=words.cubature,
    )
    rows = budget_bench.measure(given, told, picture=words.picture, quiet=display.silent)
    display.show(rows, budget_bench.table)
    failed = [f"{row['character']} ({row['failed']})" for row in rows if "failed" in row]
    if failed:
        raise SuppleError(f"{len(failed)} of {len(rows)} have no budget: {'; '.join(failed)}")


@bench.command
def growth(
    *,
    modes: Numbers = None,
    tets: Numbers = None,
    scene: str = "gorilla",
    display: Shown = DISPLAY,
) -> None:
    """Time steps of the gorilla on one core as its modes and its tets grow.

    Parameters
    ----------
    modes
        Numbers of modes; by default 100, 50, 25 and 10.
    tets
        Mesh sizes; by default 16,000, 32,000, 64,000 and 128,000.
    scene
        Another character: arm, x or bear.
    """
    from supple.lab.bench.growth_bench import MODES, SIZES, measure, table

    for name, given in (("--modes", modes), ("--tets", tets)):
        if given == []:
            raise SuppleError(f"{name} needs one or more numbers")
    # Asking for one of the two is not asking for the other.
    counts = MODES if modes is None and tets is None else modes or ()
    sizes = SIZES if modes is None and tets is None else tets or ()
    display.show(measure(counts, sizes, scene=scene, quiet=display.silent), table)


@bench.command
def builds(
    *,
    tets: Numbers = None,
    modes: int | None = None,
    scene: str = "gorilla",
    display: Shown = DISPLAY,
) -> None:
    """Build the gorilla with more and more tets: processor time by stages, memory, errors.

    Parameters
    ----------
    tets
        Mesh sizes; by default 16,000, 32,000 and 64,000.
    modes
        Number of modes in all; the scene's own by default.
    scene
        Another character: arm, x or bear.
    """
    from supple.lab.bench.build_bench import SIZES, measure, table

    sizes = _sizes(tets, "--tets 16000 64000") or SIZES
    figures = measure(sizes, modes=modes, scene=scene, quiet=display.silent)
    display.show(figures, table)


@bench.command
def elastic(*, tets: Numbers = None, display: Shown = DISPLAY) -> None:
    """Time forces, stiffness and full steps, beside scikit-fem's assembly.

    Parameters
    ----------
    tets
        Mesh sizes; by default 10,000, 12,000, 100,000 and 1,000,000.
    """
    from supple.lab.bench.elastic_bench import DEFAULT_SIZES, measure, table

    sizes = _sizes(tets, "--tets 10000 100000") or DEFAULT_SIZES
    display.show(measure(sizes, quiet=display.silent), table)


@bench.command
def rig(*, vertices: int = 15_000, display: Shown = DISPLAY) -> None:
    """Time rigs beside a 256³ matrix product on one core.

    Parameters
    ----------
    vertices
        Size of the surface.
    """
    from supple.lab.bench.rig_bench import measure, table

    display.show(measure(vertices, quiet=display.silent), table)


@bench.command
def reduction(*, tets: Numbers = None, display: Shown = DISPLAY) -> None:
    """Time builds of the gorilla as its mesh grows, and modes with contact beside modes without.

    Parameters
    ----------
    tets
        Mesh sizes; by default 16,000, 32,000, 64,000 and 128,000.
    """
    from supple.lab.bench.reduction_bench import DEFAULT_SIZES, measure, table

    sizes = _sizes(tets, "--tets 16000 32000") or DEFAULT_SIZES
    display.show(measure(sizes, quiet=display.silent), table)


def _sizes(tets: list[int] | None, example: str) -> list[int] | None:
    if tets == []:
        raise SuppleError(f"--tets needs one or more numbers, such as {example}")
    return tets


@bench.command
def stvk(
    *cases: str,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time StVK bodies: their polynomials on all cores, a step on one, beside barbic2005's.

    Parameters
    ----------
    cases
        Any of spoon, bridge, tower, heart, beam15, beam30, beam60 and beam100k; by default all.
    steps
        How many steps a run has; 3,000 by default, fewer for --growth.
    growth
        Instead, draw how times grow with modes and elements into this .png file; the figures go
        into a .json file beside it.
    """
    from supple.lab.bench import stvk_bench, stvk_growth

    if growth is None:
        asked = stvk_bench.STEPS if steps is None else steps
        rows = stvk_bench.measure(cases, steps=asked, quiet=display.silent)
        display.show(rows, stvk_bench.table)
    elif cases:
        raise SuppleError(f'--growth has cases of its own; leave "{cases[0]}" out')
    else:
        asked = stvk_growth.STEPS if steps is None else steps
        figures = stvk_growth.measure(growth, steps=asked, quiet=display.silent)
        display.show(figures, stvk_growth.table)


@bench.command(name="rig-space")
def rig_space(
    *cases: str,
    model: Path | None = None,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time steps of free parameters on one core, beside rig-space physics as hahn2013 has it.

    Parameters
    ----------
    cases
        Any of trunk (13 parameters of a wire), belly (36 shapes), shapes (174), or a scene with
        free parameters, SCENE:GROUP for some of them; by default all.
    model
        A .supple file of your own with free parameters to time instead.
    steps
        How many steps of its motion to time; 1,000 by default, fewer for --growth.
    growth
        Instead, draw how times grow with parameters and tets into this .png file; the figures go
        into a .json file beside it. A run that was ended goes on where it was.
    """
    from supple.lab.bench.rig_space import free_growth, rsp_bench

    if growth is None:
        asked = rsp_bench.STEPS if steps is None else steps
        rows = rsp_bench.measure(cases, model=model, steps=asked, quiet=display.silent)
        display.show(rows, rsp_bench.table)
    elif cases or model is not None:
        raise SuppleError("--growth has cases of its own; leave others out")
    else:
        asked = free_growth.STEPS if steps is None else steps
        figures = free_growth.measure(growth, steps=asked, quiet=display.silent)
        display.show(figures, free_growth.table)


@bench.command(name="soft-skeleton")
def soft_skeleton(
    *cases: str,
    model: Path | None = None,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time steps of bodies that touch things on one core, beside all of their tets.

    Parameters
    ----------
    cases
        Any of hand (87 handles), body (82) and many (176), which are our own, or files of bodies
        and characters, such as body.npz; by default the former.
    model
        A .supple file of a soft skeleton to time instead.
    steps
        How many steps to time, with contact and without; 600 by default, fewer for --growth.
    growth
        Instead, draw how times grow with handles, cubature and contacts into this .png file; the
        figures go into a .json file beside it. A run that was ended goes on where it was.
    """
    from supple.lab.bench.soft_skeleton import flesh_growth, soft_bench

    if growth is None:
        asked = soft_bench.STEPS if steps is None else steps
        rows = soft_bench.measure(cases, model=model, steps=asked, quiet=display.silent)
        display.show(rows, soft_bench.table)
    elif cases or model is not None:
        raise SuppleError("--growth has cases of its own; leave others out")
    else:
        asked = flesh_growth.STEPS if steps is None else steps
        figures = flesh_growth.measure(growth, steps=asked, quiet=display.silent)
        display.show(figures, flesh_growth.table)


@bench.command
def bake(*files: str, markdown: Flag = False, display: Shown = DISPLAY) -> None:
    """Bake characters with defaults, and say how large they are and how long it takes.

    Parameters
    ----------
    files
        Characters, as for supple bake; by default the built-in ones. What is written is thrown
        away.
    markdown
        Print the table as Markdown.
    """
    from supple.lab.bench import bake_bench

    rows = bake_bench.measure(files, quiet=display.silent)
    if markdown and not display.json:
        print(bake_bench.markdown(rows), end="")
    else:
        display.show(rows, bake_bench.table)
    failed = [f"{row['character']} ({row['failed']})" for row in rows if "failed" in row]
    if failed:
        raise SuppleError(f"{len(failed)} of {len(rows)} could not be baked: {'; '.join(failed)}")
