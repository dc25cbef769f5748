"""The commands `supple bench …`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from supple.app.cli_options import Json, Quiet, print_json
from supple.errors import SuppleError

__all__ = ["bench"]

bench = App(name="bench", help="Measure Supple on this machine, beside other software.")


@bench.command
def elastic(
    *,
    tets: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time forces, stiffness and full steps, beside scikit-fem's assembly.

    Parameters
    ----------
    tets
        Mesh sizes; by default 10,000, 12,000, 100,000 and 1,000,000.
    """
    from supple.app.bench_elastic import DEFAULT_SIZES, measure, table

    if tets == []:
        raise SuppleError("--tets needs one or more numbers, such as --tets 10000 100000")
    rows = measure(tets or DEFAULT_SIZES, quiet=quiet)
    if json:
        print_json(rows)
    elif not quiet:
        table(rows)


@bench.command
def rig(*, vertices: int = 15_000, json: Json = False, quiet: Quiet = False) -> None:
    """Time rigs beside a 256³ matrix product on one core.

    Parameters
    ----------
    vertices
        Size of the surface.
    """
    from supple.app.bench_rig import measure, table

    rows = measure(vertices, quiet=quiet or json)
    if json:
        print_json(rows)
    elif not quiet:
        table(rows)


@bench.command
def reduction(
    *,
    tets: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time builds of the gorilla as its mesh grows, and modes with contact beside modes without.

    Parameters
    ----------
    tets
        Mesh sizes; by default 16,000, 32,000, 64,000 and 128,000.
    """
    from supple.app.bench_reduction import DEFAULT_SIZES, measure, table

    if tets == []:
        raise SuppleError("--tets needs one or more numbers, such as --tets 16000 32000")
    figures = measure(tets or DEFAULT_SIZES, quiet=quiet or json)
    if json:
        print_json(figures)
    elif not quiet:
        table(figures)
