"""Answer claims in Blender's Python: reads requests, a line of JSON each, and writes answers."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "blender")]

import supple_addon  # noqa: E402

from inside.claims import CLAIMS  # noqa: E402
from inside.file_claims import FILE_CLAIMS  # noqa: E402

supple_addon.register()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what Blender prints is no answer
for line in sys.stdin:
    request = json.loads(line)
    os.environ.update(request.pop("environment"))
    try:
        found = {"found": (CLAIMS | FILE_CLAIMS)[request.pop("claim")](**request)}
    except BaseException:
        found = {"trouble": traceback.format_exc()}
    print(json.dumps(found), file=answers, flush=True)
os._exit(0)  # bpy crashes when Python takes it down
