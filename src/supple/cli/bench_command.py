"""The commands `supple bench …`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from supple.cli.common_options import DISPLAY, Display, Flag, Numbers, Shown
from supple.engines.engine import FIRST_ENGINE
from supple.engines.options import EngineName
from supple.errors import SuppleError


@dataclass(frozen=True)
class BudgetArguments:
    """Options of `--budget`."""

    motion: str | None = None
    """With --budget: name of a motion of each character; by default as in supple bake."""
    seconds: float | None = None
    """With --budget: duration from the motion's start in s, 1 by default."""
    tets: int | None = None
    """With --budget: number of tets; by default as in supple bake."""
    modes: int | None = None
    """With --budget: number of modes; by default as in supple bake."""
    poses: int | None = None
    """With --budget: maximum number of poses; by default as in supple bake."""
    cubature: int | None = None
    """With --budget: cubature tets for each mode, 3 by default."""
    picture: Path | None = None
    """With --budget: a .png file for a picture of the parts."""

    def refuse(self) -> None:
        """Raise a `SuppleError` if an option is given, since all of them need --budget."""
        for name, value in vars(self).items():
            if value is not None:
                raise SuppleError(f"--{name} is for supple bench --budget")


SPLITTING = BudgetArguments()
Splitting = Annotated[BudgetArguments, Parameter(name="*")]

bench = App(
    name="bench",
    help="Measure the speed and accuracy of Supple on this machine, next to other software.",
)


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
    """Time real-time steps of the built-in characters on one core, next to the paper's.

    Parameters
    ----------
    scenes
        Any of arm, x, bear and gorilla; by default all. Their models are built once and cached.
        With --budget also files of characters.
    model
        A .supple file to time instead.
    steps
        Number of steps of the motion.
    fidelity
        Also compare with the unreduced simulation; takes minutes per scene.
    parts
        Instead, time the parts of a pose-space step, and compare them with the machine's limits.
    steady
        Instead, take this many steps and count late steps, next to equal loops of arithmetic.
    budget
        Instead, split the error of characters, baked as by supple bake, into its parts: time
        step, basis, cubature, limits and others. Takes minutes per character; an interrupted run
        resumes.
    """
    exclusive = {"--parts": parts, "--steady": steady is not None, "--budget": budget}
    exclusive |= {"--fidelity": fidelity, "--model": budget and model is not None}
    selected = [name for name, present in exclusive.items() if present]
    if len(selected) > 1:
        raise SuppleError(f"{selected[0]} and {selected[1]} exclude each other; give one of them")
    if budget:
        _budget(scenes, engine, splitting, display)
        return
    splitting.refuse()
    common: dict[str, Any] = {"model": model, "quiet": display.silent}
    if steady is not None:
        from supple.lab.bench import steady_bench

        rows = steady_bench.measure(scenes, engine=engine, steps=steady, **common)
        display.show(rows, steady_bench.table)
    elif parts:
        from supple.lab.bench import step_parts

        _check_engine("--parts", engine)
        rows = step_parts.measure(scenes, steps=steps, **common)
        display.show(rows, step_parts.table)
    else:
        _steps(scenes, engine, model, steps, fidelity, display)


def _steps(
    scenes: tuple[str, ...],
    engine: str,
    model: Path | None,
    steps: int,
    fidelity: bool,
    display: Display,
) -> None:
    """Time steps of the scenes; rig-space and soft-skeleton have benches with other cases."""
    from supple.engines.engine import engine_named
    from supple.lab.bench import step_bench
    from supple.scenes.characters.character_scene import SCENES

    free = "free" in engine_named(engine, "character").build_options
    if free or engine == "soft-skeleton":
        if fidelity:
            raise SuppleError(f"--fidelity: {engine} has no such test; use supple bench {engine}")
        command = rig_space if free else soft_skeleton
        command(*scenes, model=model, steps=steps, display=display)
        return
    for name in scenes:  # a misspelt command looks like a scene
        near = get_close_matches(name, [*bench], 1)
        if near and not get_close_matches(name, SCENES, 1, 0.5):
            raise SuppleError(f'no scene "{name}"; did you mean supple bench {near[0]}?')
    options: dict[str, Any] = {"engine": engine, "model": model, "quiet": display.silent}
    rows = step_bench.measure(scenes, steps=steps, fidelity=fidelity, **options)
    display.show(rows, step_bench.table)


def _check_engine(option: str, engine: str) -> None:
    if engine != FIRST_ENGINE:
        raise SuppleError(f"{option} is for {FIRST_ENGINE}, not {engine}")


def _budget(
    sources: tuple[str, ...], engine: str, given: BudgetArguments, display: Display
) -> None:
    from supple.lab.bench import budget_bench

    _check_engine("--budget", engine)
    options = budget_bench.BudgetOptions(
        motion=given.motion,
        seconds=1.0 if given.seconds is None else given.seconds,
        tets=given.tets,
        modes=given.modes,
        most_poses=given.poses,
        cubature=given.cubature,
    )
    rows = budget_bench.measure(sources, options, picture=given.picture, quiet=display.silent)
    display.show(rows, budget_bench.table)
    _check_failures(rows, "have no budget")


def _check_failures(rows: list[dict[str, Any]], what: str) -> None:
    failed = [f"{row['character']} ({row['failed']})" for row in rows if "failed" in row]
    if failed:
        raise SuppleError(f"{len(failed)} of {len(rows)} {what}: {'; '.join(failed)}")


@bench.command
def growth(
    *,
    modes: Numbers = None,
    tets: Numbers = None,
    scene: str = "gorilla",
    display: Shown = DISPLAY,
) -> None:
    """Time steps of the gorilla on one core for more and more modes and tets.

    Parameters
    ----------
    modes
        Numbers of modes; by default 100, 50, 25 and 10.
    tets
        Mesh sizes; by default 16,000, 32,000, 64,000 and 128,000.
    scene
        Another character: arm, x or bear.
    """
    from supple.lab.bench import scaling_bench

    # With one of the options, the other has no default.
    both = modes is None and tets is None
    counts = scaling_bench.MODES if both else _sizes(modes, "--modes 100 50") or ()
    sizes = scaling_bench.SIZES if both else _sizes(tets, "--tets 16000 32000") or ()
    figures = scaling_bench.measure_steps(counts, sizes, scene=scene, quiet=display.silent)
    display.show(figures, scaling_bench.steps_table)


@bench.command
def builds(
    *,
    tets: Numbers = None,
    modes: int | None = None,
    scene: str = "gorilla",
    display: Shown = DISPLAY,
) -> None:
    """Build the gorilla with several numbers of tets: processor time of stages, memory, errors.

    Parameters
    ----------
    tets
        Mesh sizes; by default 16,000, 32,000 and 64,000.
    modes
        Total number of modes; by default the scene's.
    scene
        Another character: arm, x or bear.
    """
    from supple.lab.bench import scaling_bench

    sizes = _sizes(tets, "--tets 16000 64000") or scaling_bench.BUILD_SIZES
    figures = scaling_bench.measure_builds(sizes, modes=modes, scene=scene, quiet=display.silent)
    display.show(figures, scaling_bench.builds_table)


@bench.command
def elastic(*, tets: Numbers = None, display: Shown = DISPLAY) -> None:
    """Time forces, stiffness and full steps, next to scikit-fem's assembly.

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
    """Time rigs on one core, next to a 256³ matrix product.

    Parameters
    ----------
    vertices
        Number of vertices of the surface.
    """
    from supple.lab.bench.rig_bench import measure, table

    display.show(measure(vertices, quiet=display.silent), table)


@bench.command
def reduction(*, tets: Numbers = None, display: Shown = DISPLAY) -> None:
    """Time builds of the gorilla for more and more tets, and modes with and without contact.

    Parameters
    ----------
    tets
        Mesh sizes; by default 16,000, 32,000, 64,000 and 128,000.
    """
    from supple.lab.bench import scaling_bench

    sizes = _sizes(tets, "--tets 16000 32000") or scaling_bench.SIZES
    figures = scaling_bench.measure_reduction(sizes, quiet=display.silent)
    display.show(figures, scaling_bench.reduction_table)


@bench.command(name="self-contact")
def self_contact(
    *sources: str,
    model: Path | None = None,
    motion: str | None = None,
    rate: float | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Measure how deep skin goes into skin beyond the rig's own, without and with self-contact.

    Parameters
    ----------
    sources
        Characters, baked in live quality with defaults.
    model
        A .supple file of the character; by default models are built, or found in the cache.
    motion
        Motion by name; by default the liveliest.
    rate
        Frames per second that are measured; by default the file's own, or 30.
    """
    from supple.lab.bench.self_contact_bench import measure, table

    options = {"motion": motion, "rate": rate}
    given = {name: value for name, value in options.items() if value is not None}
    display.show(measure(sources, model=model, quiet=display.silent, **given), table)


def _sizes(numbers: list[int] | None, example: str) -> list[int] | None:
    if numbers == []:
        raise SuppleError(f"{example.split()[0]} needs one or more numbers, such as {example}")
    return numbers


def _cases_or_growth(
    kind: str,
    module: Any,
    cases: tuple[str, ...],
    steps: int | None,
    growth: Path | None,
    display: Display,
    **options: Path | None,
) -> None:
    """Measure cases with a bench module, or with `growth` times over sizes by `growth_bench`."""
    settings: dict[str, Any] = {} if steps is None else {"steps": steps}
    settings["quiet"] = display.silent
    if growth is None:
        display.show(module.measure(cases, **settings, **options), module.table)
    elif cases or any(options.values()):
        raise SuppleError("--growth measures fixed cases; leave out cases and --model")
    else:
        from supple.lab.bench import growth_bench
        from supple.lab.bench.case_runner import print_growth

        figures = getattr(growth_bench, f"measure_{kind}")(growth, **settings)
        display.show(figures, partial(print_growth, getattr(growth_bench, kind.upper())))


@bench.command
def stvk(
    *cases: str,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time StVK bodies: polynomials on all cores, steps on one, next to those of barbic2005.

    Parameters
    ----------
    cases
        Any of spoon, bridge, tower, heart, beam15, beam30, beam60 and beam100k; by default all.
    steps
        Number of steps of a run; 3,000 by default, fewer for --growth.
    growth
        Instead, draw times over modes and elements into this .png file; the figures go into a
        .json file next to it. An interrupted run resumes.
    """
    from supple.lab.bench import stvk_bench

    _cases_or_growth("stvk", stvk_bench, cases, steps, growth, display)


@bench.command(name="rig-space")
def rig_space(
    *cases: str,
    model: Path | None = None,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time steps of free parameters on one core, next to rig-space physics as in hahn2013.

    Parameters
    ----------
    cases
        Any of trunk (13 parameters of a wire), belly (36 shapes), shapes (174), or a scene with
        free parameters, SCENE:GROUP for some of them; by default all.
    model
        A .supple file with free parameters to time instead.
    steps
        Number of steps of a motion; 1,000 by default, fewer for --growth.
    growth
        Instead, draw times over parameters and tets into this .png file; the figures go into a
        .json file next to it. An interrupted run resumes.
    """
    from supple.lab.bench import rig_space_bench

    _cases_or_growth("rig_space", rig_space_bench, cases, steps, growth, display, model=model)


@bench.command(name="soft-skeleton")
def soft_skeleton(
    *cases: str,
    model: Path | None = None,
    steps: int | None = None,
    growth: Path | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Time steps of bodies in contact on one core, next to the unreduced flesh.

    Parameters
    ----------
    cases
        Any of the built-in hand (87 handles), body (82) and many (176), or files of bodies and
        characters, such as body.npz; by default the built-in bodies.
    model
        A .supple file of a soft skeleton to time instead.
    steps
        Number of steps with contact, and as many without; 600 by default, fewer for --growth.
    growth
        Instead, draw times over handles, cubature tets and contacts into this .png file; the
        figures go into a .json file next to it. An interrupted run resumes.
    """
    from supple.lab.bench.soft_skeleton import soft_bench

    _cases_or_growth("soft_skeleton", soft_bench, cases, steps, growth, display, model=model)


@bench.command
def bake(*files: str, markdown: Flag = False, display: Shown = DISPLAY) -> None:
    """Bake characters with defaults; print sizes, times and errors.

    Parameters
    ----------
    files
        Characters, as for supple bake; by default the built-in scenes. Baked files are removed.
    markdown
        Print the table as Markdown.
    """
    from supple.lab.bench import bake_bench

    rows = bake_bench.measure(files, quiet=display.silent)
    if markdown and not display.json:
        print(bake_bench.markdown(rows), end="")
    else:
        display.show(rows, bake_bench.table)
    _check_failures(rows, "could not be baked")
