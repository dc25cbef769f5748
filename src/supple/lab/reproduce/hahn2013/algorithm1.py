"""hahn2013 §4.2: Algorithm 1 for all interior vertices, and the error of the shape at rest."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.shaken_examples import shaken_examples
from supple.engines.rig_space.volumetric_skinning import (
    EXAMPLES,
    VolumetricSkinning,
    trained_skinning,
)
from supple.lab.reproduce.hahn2013.takes import SUBJECTS, model_of
from supple.linalg.blas import single_threaded
from supple.mesh.tets import TetMesh
from supple.progress import Progress

#: Mean number of surface vertices that an interior one follows, and seconds a vertex, as printed.
PAPER_SKINNING = {"trunk": (5.52, 30.0), "belly": (5.55, 29.0), "sumo": (6.87, 16.5)}
#: Error δ of Algorithm 1, as a fraction of the size; the paper gives none.
DELTA = 1e-6


def missed_at_rest(model: RigSpaceModel, skin: VolumetricSkinning) -> Floats:
    """Return the distances (q, 3) of the skinned interior from rest, at rest."""
    rest = model.mesh.vertices
    return np.asarray(rest[skin.interior] - skin.weights @ rest[skin.surface])


def skinning(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Run Algorithm 1 for all interior vertices, and measure the error of the shape at rest."""
    rows: list[dict[str, Any]] = []
    names = ("trunk",) if quick else tuple(PAPER_SKINNING)
    for at, name in enumerate(names):
        subject = SUBJECTS[name]
        progress(at / len(names), f"{name}: examples")
        model = model_of(subject, quick)
        with single_threaded():
            began = process_time()
            examples = shaken_examples(model, 8 if quick else EXAMPLES)
            shaken = process_time()
            progress((at + 0.5) / len(names), f"{name}: Algorithm 1")
            skin = trained_skinning(model, examples, allowed=DELTA)
            ended = process_time()
        count, printed = len(model.interior), PAPER_SKINNING[name]
        missed = 100 / subject.height * np.linalg.norm(missed_at_rest(model, skin), axis=1)
        shape = model.mesh.vertices.copy()
        shape[skin.interior] = skin.weights @ shape[skin.surface]
        inverted = TetMesh(shape, model.mesh.tets).volumes() <= 0
        rows.append(
            {
                "subject": name,
                "interior_vertices": count,
                "surface_vertices": len(skin.surface),
                "correspondences": {"ours": skin.correspondences, "paper": printed[0]},
                "examples_s": shaken - began,
                "algorithm_1_s": ended - shaken,
                "ms_a_vertex": {
                    "ours": 1e3 * (ended - shaken) / max(count, 1),
                    "paper": 1e3 * printed[1],
                },
                "rest_off_mean_percent": float(missed.mean()),
                "rest_off_most_percent": float(missed.max()),
                "inverted_at_rest": int(inverted.sum()),
                "tets": len(inverted),
            }
        )
    worst = max(rows, key=lambda row: row["rest_off_most_percent"])
    return {
        "title": "hahn2013 §4.2: Algorithm 1 for all interior vertices",
        "message": f"All weights in {max(row['algorithm_1_s'] for row in rows):.2g} s at most "
        "(paper: 30 s a vertex). As printed, the shape at rest has errors of up to "
        f"{worst['rest_off_most_percent']:.3g} % of the height and has {worst['inverted_at_rest']} "
        f"of {worst['tets']:,} tets inverted ({worst['subject']}).",
        "rows": rows,
        "note": "Examples are swings after impulses (shaken_examples). "
        "The twenty nearest surface vertices through the tets, with weights not negative. "
        "Around a deep vertex they all lie on one side, so that no weights reproduce it at rest.",
    }
