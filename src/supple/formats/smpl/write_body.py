"""Writing body models in the layout of SMPL and MANO."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from supple.arrays import Floats
from supple.errors import FormatError
from supple.formats.smpl.body_model import BodyModel
from supple.saving import write_whole


def write_body_model(path: str | Path, body: BodyModel) -> None:
    """Write a body model as an archive that `read_body_model` and other readers take.

    Parameters
    ----------
    path : str or Path
        Ends in ``.npz``; pickles are not written.
    body : BodyModel
        What is written, in the units and the order that it has.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise FormatError(f"{path.name}: body models are written as .npz")
    table = np.array([body.parents, np.arange(body.n_joints)])
    table[0, 0] = 2**32 - 1  # as in the published files
    fields: dict[str, Floats] = {
        "v_template": body.template,
        "f": body.triangles.astype(np.uint32),
        "weights": body.weights,
        "J_regressor": body.regressor,
        "kintree_table": table,
        "shapedirs": body.shape_directions,
        "posedirs": body.pose_directions,
    }
    if body.hand_mean is not None:
        fields["hands_mean"] = body.hand_mean
    if body.hand_components is not None:
        fields["hands_components"] = body.hand_components
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fields)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())
