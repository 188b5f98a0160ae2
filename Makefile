# Every target makes .venv if it is missing and installs what it needs there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test test-fast first-hour fuzz lint tables docs data clean

demo: $(VENV)/.demo
	$(BIN)/python -m patchprint.pipelines.demo

# One thread per test process: two processes share two cores.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Without the tests that are marked slow.
test-fast: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Nightly: what a new user does first, with the wheel in a fresh virtual environment, on real photos.
# HLOC=FOLDER, a copy of github.com/cvg/Hierarchical-Localization, lets it take part.
HOUR_PHOTOS ?= ../shared/data/photos/sceaux/images
HLOC ?=

first-hour:
	$(PYTHON) tests/first_hour/play.py --photos $(HOUR_PHOTOS) $(if $(HLOC),--hloc $(HLOC))

# Nightly: damaged files for every reader; some hours. SECONDS=60 stops each reader after so long.
CASES ?= 10000
SECONDS ?=

fuzz: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz.nightly --cases $(CASES) $(if $(SECONDS),--seconds $(SECONDS)) \
		--out results/reliability/fuzz.json

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tables in the documents and the numbers of patchprint models, from the files in results/.
tables: $(VENV)/.dev
	$(BIN)/python -m tools.tables README.md MODELS.md docs/*.md
	$(BIN)/python -m tools.measured

# The documents as pages, with the API, in site/; broken links are errors.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Training data from photos with COLMAP models (docs/data.md says which); sets that are there already are kept.
PHOTOS ?= ../shared/data/photos
SCENES := notredame liberty castle entry sceaux $(addprefix oxford-landmarks/,radcliffe allsouls christchurch bodleian)
DATA_OPTIONS ?=

data: $(foreach scene,$(SCENES),data/$(notdir $(scene))/manifest.json)

data/%/manifest.json: | $(VENV)/.dev
	$(BIN)/patchprint data build colmap $(filter %/$*,$(addprefix $(PHOTOS)/,$(SCENES))) data/$* $(DATA_OPTIONS)

$(VENV)/.base:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24' --constraint constraints.txt
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
