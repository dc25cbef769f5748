"""Khronos glTF validator, run by Node.js if both are installed.

The module is looked for in the folder that SUPPLE_GLTF_VALIDATOR names (one that holds
node_modules, or the module itself) and in .npm/ of the project.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = """
const fs = require("fs"), path = require("path");
const validator = require(process.argv[1]);
const reports = process.argv.slice(2).map(file => validator.validateBytes(
  new Uint8Array(fs.readFileSync(file)),
  {uri: file, maxIssues: 0, externalResourceFunction: uri => Promise.resolve(
    new Uint8Array(fs.readFileSync(path.join(path.dirname(file), decodeURIComponent(uri)))))}));
Promise.all(reports).then(all => console.log(JSON.stringify(all.map(r => r.issues.messages))));
"""
ERROR, WARNING = 0, 1


@cache
def validator() -> Path:
    """Return the module's folder; skip the test without it or without Node.js."""
    if shutil.which("node") is None:
        pytest.skip("no node to run the glTF validator with; install nodejs")
    told = os.environ.get("SUPPLE_GLTF_VALIDATOR")
    for folder in [Path(told)] if told else [PROJECT / ".npm", PROJECT]:
        for found in (folder / "node_modules" / "gltf-validator", folder):
            if (found / "package.json").is_file() and found.name == "gltf-validator":
                return found
    pytest.skip(
        "no gltf-validator; run npm install --prefix .npm gltf-validator,"
        " or set SUPPLE_GLTF_VALIDATOR to the folder it is installed in"
    )


def issues(*paths: Path, least: int = ERROR) -> list[Counter[str]]:
    """Count each code in each file, of severity `least` or worse."""
    command = ["node", "-e", SCRIPT, str(validator().resolve()), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    return [Counter(m["code"] for m in messages if m["severity"] <= least) for messages in found]


def new_issues(before: Path, after: Path) -> Counter[str]:
    """Return errors and warnings of the second file that the first does not have."""
    old, new = issues(before, after, least=WARNING)
    return new - old
