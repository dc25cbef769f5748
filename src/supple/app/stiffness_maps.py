"""Maps of stiffness on the skin, from a word on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from supple.app.character_models import gltf_document
from supple.arrays import Floats
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import reading
from supple.formats.gltf.accessors import COMPONENTS, Accessors, decode_draco
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.read.gltf import GltfSource
from supple.rig.character import Character

LARGEST_MAP = 16 * 2**20
#: Black is not without any stiffness.
LEAST_FACTOR = 0.02
CHANNELS = {"red": [0], "green": [1], "blue": [2], "alpha": [3], "brightness": [0, 1, 2]}


def read_stiffness(text: str, character: Character) -> Any:
    """Read the option `stiffness` of `supple.bake` from a word on the command line.

    Parameters
    ----------
    text
        ``color:COLOR_0``, a vertex colour of the glTF file, whose brightness is the factor
        (``color:COLOR_0:red`` for a channel of it; black is 0.02), or a JSON file.
    character
        Of the file.
    """
    kind, _, rest = text.partition(":")
    if kind.lower() in ("color", "colour") and rest:
        attribute, _, channel = rest.partition(":")
        return _painted(character, attribute, channel or "brightness")
    path = Path(text)
    try:
        if path.stat().st_size > LARGEST_MAP:
            raise FormatError(f"{path.name}: is no stiffness map; it is too large")
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FormatError(f"{path.name}: cannot be read ({why}); see --stiffness") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: is not JSON ({str(error)[:80]})") from None
    if not isinstance(found, dict):
        raise FormatError(f'{path.name}: must be an object, such as {{"joints": {{"Tail*": 0.3}}}}')
    return found


def _painted(character: Character, attribute: str, channel: str) -> Floats:
    """Return factors (n̄,): the mean of the colours that a vertex has in the file."""
    if channel not in CHANNELS:
        raise SuppleError(f'no channel "{channel}" of a colour; there are {", ".join(CHANNELS)}')
    source = character.source
    if not isinstance(source, GltfSource):
        raise SuppleError(f"{character.name}: vertex colours are read from glTF files only")
    document = gltf_document(source)
    with reading(source.path.name):
        accessors = Accessors(document)
        count = len(character.surface.vertices)
        total, seen = np.zeros(count), np.zeros(count)
        known: set[str] = set()
        for part in source.primitives:
            described = document.part("meshes")[part.mesh]["primitives"][part.primitive]
            attributes = described.get("attributes", {})
            known.update(name for name in attributes if not name.startswith(("JOINTS", "WEIGHTS")))
            if attribute not in attributes:
                continue
            colours = _colours(document, accessors, described, attribute)
            columns = CHANNELS[channel]
            if len(colours) != len(part.welded) or colours.shape[1] <= max(columns):
                raise FormatError(f'{source.path.name}: "{attribute}" has no {channel} everywhere')
            used = part.welded >= 0
            np.add.at(total, part.welded[used], colours[used][:, columns].mean(axis=1))
            np.add.at(seen, part.welded[used], 1.0)
    if not seen.any():
        listed = ", ".join(sorted(known))
        raise SuppleError(f'{source.path.name}: no vertex colour "{attribute}"; it has {listed}')
    # What is not painted is as it is.
    return np.maximum(np.where(seen > 0, total / np.maximum(seen, 1), 1.0), LEAST_FACTOR)


def _colours(
    document: Document, accessors: Accessors, primitive: dict[str, Any], attribute: str
) -> Floats:
    """Return colours (n, 3 or 4) from 0 to 1; those of compressed primitives are in no accessor."""
    index = primitive["attributes"][attribute]
    if DRACO in primitive.get("extensions", {}):
        count = accessors.count(primitive["attributes"]["POSITION"])
        decoded, _ = decode_draco(document, primitive, count)
        if attribute in decoded:
            values = decoded[attribute].astype(np.float64)
            kind = COMPONENTS[accessors.describe(index)[1]]
            return values if kind.kind == "f" else values / np.iinfo(kind).max
    return accessors.floats(index)
