# Everything happens in .venv, made with $(PYTHON). `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors only.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# Bytecode is made when something is first imported: to make that of all of torch takes as long as installing it.
# Where PYTHONDONTWRITEBYTECODE is set, `desp` starts slowly until it ran once under make.
INSTALL := $(PIP) install --no-compile -c constraints.txt
# Worker processes of pytest, and of the tests that need a GPU.
JOBS ?= 2
GPU_JOBS ?= 4

# Bytecode of tests and sources is kept, as every worker would else compile them for ten seconds before it begins.
unexport PYTHONDONTWRITEBYTECODE

# Stamps: a second `make` does nothing while these are newer than what was installed from.
DEMO_READY := $(VENV)/.installed-demo
DEV_READY := $(VENV)/.installed
SOURCES_OF_SETUP := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-gpu lint docs format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(DEV_READY) ## make .venv with everything for development

demo: $(DEMO_READY) ## train a small model, predict, and draw the result
	$(BIN)/desp demo

test: lint docs ## all checks: style, types, docs, tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not long and not gpu"

# On a machine without .venv: PYTHONPATH=src make test-gpu PYTHON_OF_TESTS=python3 COMMIT=...
ifdef PYTHON_OF_TESTS
test-gpu:
else
PYTHON_OF_TESTS := $(BIN)/python
test-gpu: $(DEV_READY)
endif
test-gpu: ## every test that needs a CUDA device; writes results/gpu-tests.json
	OMP_NUM_THREADS=1 $(PYTHON_OF_TESTS) tests/gpu.py --jobs $(GPU_JOBS) $(if $(COMMIT),--commit $(COMMIT))

lint: $(DEV_READY) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DEV_READY) ## build the documentation into site/
	$(BIN)/sphinx-build -W --keep-going -q -b html docs site

format: $(DEV_READY) ## repair style where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove caches and built files (not .venv, not runs/)
	rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The demo needs only the pictures; a development set-up serves it as well.
$(DEMO_READY): $(SOURCES_OF_SETUP) | $(BIN)/python
	@echo "Installing into $(VENV), about a minute ..."
	$(INSTALL) -e '.[viz]'
	@touch $@

$(DEV_READY): $(SOURCES_OF_SETUP) | $(BIN)/python
	@echo "Installing into $(VENV), about a minute ..."
	$(INSTALL) -e '.[dev]'
	@touch $(DEMO_READY) $@
