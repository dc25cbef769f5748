"""Build the add-on for Blender into dist/ or another folder: supple-blender-VERSION.zip.

    python tools/build_addon.py [FOLDER]

The same files give the same bytes. The version is that of Supple.
"""

from __future__ import annotations

import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "blender" / "supple_addon"


def main() -> None:
    """Write the archive and print its path."""
    manifest = tomllib.loads((SOURCE / "blender_manifest.toml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if manifest["version"] != project["project"]["version"]:
        sys.exit(
            f"blender_manifest.toml has version {manifest['version']}, not that of pyproject.toml"
        )
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    target = folder / f"supple-blender-{manifest['version']}.zip"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(SOURCE.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                entry = zipfile.ZipInfo(file.name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, file.read_bytes())
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
