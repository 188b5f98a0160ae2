# Every target makes .venv if it is missing and installs what it needs there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# --build-constraint reaches the environment in which pip builds this package, --constraint does not.
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt

.PHONY: release demo test test-fast first-hour faults load fuzz sdist-test lint audit sbom lock tables docs data clean

demo: export OMP_WAIT_POLICY ?= PASSIVE
demo: $(VENV)/.demo
	$(BIN)/python -m patchprint.pipelines.demo

# One thread per test process: two processes share two cores.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Without the tests that are marked slow.
test-fast: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Nightly: what a new user does first, with the wheel in a fresh virtual environment, on real images.
# HLOC=FOLDER, a copy of github.com/cvg/Hierarchical-Localization, lets it take part.
HOUR_IMAGES ?= ../shared/data/photos/sceaux/images
HLOC ?=

first-hour:
	$(PYTHON) tests/nightly/play_first_hour.py --images $(HOUR_IMAGES) $(if $(HLOC),--hloc $(HLOC))

# Nightly: kills, full and read-only disks, several writers, in everything that patchprint writes; each night another SEED.
SIZES ?= 200
KILLS ?= 100
WORKS ?= 30
SEED ?=

faults: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m nightly.faults --sizes $(SIZES) --kills $(KILLS) --works $(WORKS) \
		$(if $(SEED),--seed $(SEED))

# Nightly: COUNT images described in one run and MINUTES of training, with constant memory and no file left open.
COUNT ?= 10000
MINUTES ?= 30

load: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m nightly.load --images $(COUNT) --minutes $(MINUTES)

# Nightly: the source distribution, built, installed beside the locked packages (whose checksums pip compares) in a fresh virtual
# environment, and tested by the tests that it carries.
SDIST := build/sdist

sdist-test: $(VENV)/.dev
	rm -rf $(SDIST)
	$(BIN)/python -m hatchling build --target sdist --directory $(SDIST)
	mkdir $(SDIST)/unpacked
	tar --extract --file $(SDIST)/*.tar.gz --directory $(SDIST)/unpacked --strip-components 1
	$(PYTHON) -m venv $(SDIST)/venv
	$(SDIST)/venv/bin/python -m pip install --quiet --upgrade $(PINNED_PIP)
	$(SDIST)/venv/bin/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(SDIST)/venv/bin/python -m pip install --quiet --no-deps --no-build-isolation $(SDIST)/*.tar.gz
	cd $(SDIST)/unpacked && OMP_NUM_THREADS=1 ../venv/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

# Nightly: damaged files for every reader; some hours. SECONDS=60 stops each reader after so long, ONLY="hloc 'track store'" runs
# these alone and keeps what is on record of the others.
CASES ?= 10000
SECONDS ?=
ONLY ?=

fuzz: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m nightly.fuzz --cases $(CASES) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(ONLY),--only $(ONLY)) --out results/reliability/fuzz.json

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Known vulnerabilities and licenses of everything that patchprint stands on.
audit: sbom
	$(BIN)/python -m tools.audit dist/sbom.cdx.json --pip-audit $(AUDIT)/bin/pip-audit

# A list of everything that is installed for development, as CycloneDX (JSON).
sbom: $(VENV)/.dev $(VENV)/.audit
	mkdir -p dist
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --output-format JSON --output-file dist/sbom.cdx.json $(BIN)/python

# Everything of a release into dist/, from the tag at HEAD (CONTRIBUTING.md); a tree with changes is refused.
release: sbom
	$(BIN)/python -m tools.release --out dist

# requirements.lock, from constraints.txt; WHEELS are folders with wheels that no index has.
WHEELS ?= $(PIP_FIND_LINKS)

lock: $(VENV)/.dev $(VENV)/.audit
	$(BIN)/python -m tools.lock --uv $(AUDIT)/bin/uv $(WHEELS)

# The tables in the documents and the numbers of patchprint models, from the files in results/.
tables: $(VENV)/.dev
	$(BIN)/python -m tools.tables

# The documents as pages, with the API, in site/; broken links are errors.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Training data from images with COLMAP models (docs/data.md says which); sets that are there already are kept.
PHOTOS ?= ../shared/data/photos
SCENES := notredame liberty castle entry sceaux $(addprefix oxford-landmarks/,radcliffe allsouls christchurch bodleian)
DATA_OPTIONS ?=

data: $(foreach scene,$(SCENES),data/$(notdir $(scene))/manifest.json)

data/%/manifest.json: | $(VENV)/.dev
	$(BIN)/patchprint data build colmap $(filter %/$*,$(addprefix $(PHOTOS)/,$(SCENES))) data/$* $(DATA_OPTIONS)

PINNED_PIP := $(shell grep '^pip==' constraints.txt)
# The tools of audit, sbom and lock need much that patchprint does not: they have an environment of their own.
AUDIT := $(VENV)/audit

$(VENV)/.audit: $(VENV)/.base pyproject.toml
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --upgrade $(PINNED_PIP)
	$(AUDIT)/bin/python -m pip install --quiet $$($(PYTHON) -c \
	  "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['audit'])")
	touch $@

$(VENV)/.base:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade $(PINNED_PIP)
	touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml constraints.txt
	$(PIP) --editable '.[images,eval]'
	touch $@

$(VENV)/.docs: $(VENV)/.base pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/.dev: $(VENV)/.base pyproject.toml constraints.txt
	$(PIP) --editable '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
