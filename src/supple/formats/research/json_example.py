"""Characters of research examples in JSON: the keys of a file say which example it is of."""

from __future__ import annotations

from pathlib import Path

from supple.errors import FormatError
from supple.formats.research.complementary import read_complementary
from supple.formats.research.fast_cd import read_fast_cd, read_json
from supple.rig.character import Character


def load_json_example(path: Path, metres_per_unit: float | None = None) -> Character:
    """Read an example of Complementary Dynamics or of Fast Complementary Dynamics."""
    content = read_json(path)
    keys = content.keys() if isinstance(content, dict) else frozenset()
    told = {} if metres_per_unit is None else {"metres_per_unit": metres_per_unit}
    if "mesh_file" in keys:
        return read_complementary(path, **told).character
    if "p0" in keys:
        return read_fast_cd(path, content, **told)
    if "P" in keys:
        raise FormatError(f"{path.name}: is a motion; load the skeleton_rig.json it belongs to")
    raise FormatError(
        f"{path.name}: is JSON, but no character: neither mesh_file nor p0 is in it;"
        f" glTF's JSON ends in .gltf"
    )
