"""Read many mutated pickles of body models: ``python tests/formats/exam_pickles.py 100000``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.pickle_mutations import sample_pickles, try_mutations

if __name__ == "__main__":
    seeds = sample_pickles()
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    seeds += [file.read_bytes() for file in sorted(folder.glob("toy_*.pkl"))] if folder else []
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(try_mutations(seeds, count, seed=1))
