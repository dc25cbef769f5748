"""Compare installed packages with constraints.txt, and check licences and vulnerabilities.

    python tools/audit_dependencies.py [--offline]

Fails if a package that Supple imports or needs is under the GPL or AGPL. Reports versions that
differ, and vulnerabilities if pip-audit and a network are available.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Extras whose packages Supple imports, besides the required ones.
EXTRAS = ("usd", "draco", "alembic", "cluster", "live")
GPL = re.compile(r"\b(AGPL|GPL|GNU (Affero )?General Public)", re.IGNORECASE)
LESSER = re.compile(r"LGPL|Lesser", re.IGNORECASE)


def plain(name: str) -> str:
    """Return the normalised name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def forbids(licence: str) -> bool:
    """Return whether a licence is GPL or AGPL without alternative or exception."""
    choices = re.split(r"\bor\b(?!-later| later)", licence, flags=re.IGNORECASE)
    return all(
        bool(GPL.search(each)) and not LESSER.search(each) and "exception" not in each.lower()
        for each in choices
    )


def licence_of(package: Distribution) -> str:
    """Return the licence of a package: expression, classifiers or text."""
    metadata = package.metadata
    if metadata.get("License-Expression"):
        return str(metadata["License-Expression"])
    listed = [
        each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")
    ]
    if listed:
        return " or ".join(each.rsplit("::", 1)[-1].strip() for each in listed)
    return str(metadata.get("License") or "").strip().split("\n")[0][:80]


def needed(installed: dict[str, Distribution]) -> set[str]:
    """Return names of the installed packages that Supple depends on, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    todo = [*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]
    names: set[str] = set()
    while todo:
        words = re.match(r"[A-Za-z0-9._-]+", todo.pop())
        name = plain(words[0]) if words else ""
        if name in installed and name not in names:
            names.add(name)
            requires = installed[name].requires or []
            todo += [each for each in requires if "extra ==" not in each]
    return names


def constraints() -> dict[str, str]:
    """Return versions by name."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, flags=re.MULTILINE)
    return {plain(name): version for name, version in pins}


def vulnerabilities(offline: bool) -> str:
    """Return the result of pip-audit as text."""
    skipped = "vulnerabilities were not looked for"
    if offline:
        return f"{skipped}: --offline"
    words = [sys.executable, "-m", "pip_audit", "--requirement", "constraints.txt", "--no-deps"]
    try:
        ended = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{skipped}: no answer in two minutes"
    if "No module named" in ended.stderr:
        return f"{skipped}: pip-audit is not installed"
    if ended.returncode and not ended.stdout:
        return f"{skipped}: there is no network"
    return (ended.stdout + ended.stderr).strip() or "no known vulnerabilities"


def main() -> int:
    """Print the report; return 1 if a licence is not allowed."""
    installed = {plain(each.metadata["Name"]): each for each in distributions()}
    pins, used = constraints(), needed(installed)
    for name in sorted(used):
        if name not in pins:
            print(f"{name} {installed[name].version}: missing in constraints.txt")
        elif installed[name].version != pins[name]:
            print(f"{name} {installed[name].version}: constraints.txt has {pins[name]}")
    wrong = [name for name in sorted(used) if forbids(licence_of(installed[name]))]
    for name in wrong:
        print(f"{name}: {licence_of(installed[name])}, not allowed for Supple")
    unknown = [name for name in sorted(used) if not licence_of(installed[name])]
    if unknown:
        print(f"unknown licence: {', '.join(unknown)}")
    if not wrong:
        print(f"{len(used)} packages that Supple imports or needs, none under the GPL")
    print(vulnerabilities("--offline" in sys.argv[1:]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
