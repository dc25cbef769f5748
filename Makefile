# Everything a fresh machine with python3, git and make needs: `make demo`, `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TOOLS  := $(VENV)/.installed-tools
# Modules are compiled to bytecode when they are first imported: most never are.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: setup demo test test-all test-quick test-durations exam farm runtime prove lint wheel blender blender-env clean

# Everything there is: the tests' tools, and all compiled code.
setup: $(TOOLS)
	$(BIN)/supple compile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "supple needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@# Debian ships python3 without ensurepip; its package is the one thing we may have to ask for.
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "installing python3-venv (Debian keeps pip for virtual environments there)"; \
	    apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "please install python3-venv (apt-get install python3-venv) and run make again"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(TOOLS): $(STAMP)
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/supple demo

PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# All but the longest, which tests/durations.json tells.
test: lint
	$(PYTEST) -m 'not long'

# All: what CI runs.
test-all: lint
	$(PYTEST)

# For every edit: the quick ones.
test-quick: $(TOOLS)
	$(PYTEST) -m 'not slow'

test-durations: $(TOOLS)
	$(PYTEST) --keep-durations

# Bakes all clips of all characters among the assets, live and in full; goes on where it stopped, and
# puts its tables and pictures into docs/characters.md. Two hours on two cores. Reads mutated pickles
# of bodies.
# First builds the gorilla of Xu and Barbič 2016 at its own size. Splits the error of each, too, into
# .exam/budget.png and .json; that goes on where it stopped as well.
exam: $(TOOLS)
	$(BIN)/python -m pytest tests/engines/pose_space/exam_gorilla.py
	$(BIN)/python -W ignore tests/anatomy/exam.py --page docs/characters.md
	-$(BIN)/supple bench --budget x arm bear gorilla $$($(BIN)/python tests/anatomy/exam.py --files) \
	  --picture .exam/budget.png --json > .exam/budget.json
	$(BIN)/python tests/formats/exam_pickles.py 100000

# Two hundred jobs one by one, in processes and on a local cluster: the same bytes, and how much
# sooner; jobs of 5 s, and what the farm adds; empty jobs by the million. An hour on two cores.
farm: $(TOOLS)
	$(BIN)/python -W ignore tools/try_batch.py
	$(BIN)/python -W ignore tools/try_batch.py --overhead 100
	$(BIN)/python -W ignore tools/batch_growth.py --cluster 2000

# Runtimes without Python for Linux and for web pages, with a small model, in .runtime/.
runtime: $(TOOLS)
	mkdir -p .runtime
	$(BIN)/supple build gorilla -o .runtime/gorilla.supple --tets 1500 --modes 10
	$(BIN)/supple export .runtime/gorilla.supple -o .runtime/linux-x86_64
	$(BIN)/supple export .runtime/gorilla.supple -o .runtime/web --target web

# Hours: a million hostile inputs, faults at every write, a day at 90 Hz, pages that come and go.
# Goes on where it stopped; figures and pictures are in .prove/. Tests have a short form of each.
INPUTS ?= 1000000
HOURS ?= 24
MINUTES ?= 120
prove: $(TOOLS)
	$(BIN)/python -W ignore tests/prove/fuzz.py --count $(INPUTS)
	$(BIN)/python -W ignore tests/prove/faults.py
	$(BIN)/python -W ignore tests/prove/soak.py --hours $(HOURS)
	$(BIN)/python -W ignore tests/prove/soak_page.py --minutes $(MINUTES)

# The source archive and a wheel with compiled code for processors with AVX2, into dist/.
wheel: $(STAMP)
	$(PIP) --editable '.[release]'
	$(BIN)/python tools/build_wheel.py

# The add-on for Blender, as a .zip to drop onto its window.
blender: $(STAMP)
	$(BIN)/python tools/build_addon.py

# Blender as a Python package, for the tests of the add-on: an environment of its own (1 GB), as
# it has NumPy and Python of its own. SUPPLE_BPY names another. Tested with 4.2.0, 4.5.15 and 5.0.1.
BPY ?= 4.2.0
blender-env: .bpy/.installed
.bpy/.installed: Makefile
	$(PYTHON) -m venv .bpy
	.bpy/bin/python -m pip install --quiet --disable-pip-version-check 'bpy==$(BPY)'
	@touch $@

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n auto

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
