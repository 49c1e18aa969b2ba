# Everything a newcomer needs: `make demo`, `make test`. See CONTRIBUTING.md.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# How many tests run at a time; each may hold a framework in half a gigabyte of memory.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
# Some images forbid bytecode; without it every start would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick lint bench test-gpu constraints clean

help:
	@echo "make demo         train a small CNN through 'gpuproof run', then check the model that it saved"
	@echo "make test         lint, types, import contract and every test (what CI runs)"
	@echo "make quick        lint and the tests that take no framework and no second"
	@echo "make lint         ruff, pyright and import-linter alone"
	@echo "make bench        the figures under bench/"
	@echo "make test-gpu     the tests that need a real NVIDIA GPU"
	@echo "make setup        the virtual environment alone; the others call it"
	@echo "make constraints  pin the newest versions that resolve"
	@echo "make clean        remove what the above made, but for the virtual environment"

# Ends at once when neither pyproject.toml nor constraints.txt has changed.
setup:
	@$(PYTHON) tools/setup_venv.py $(VENV)

demo: setup
	@PATH="$(abspath $(BIN)):$$PATH" examples/demo.sh

test: lint
	$(PYTEST) -m "not gpu" -n $(WORKERS) --dist loadgroup

quick: lint
	$(PYTEST) -m "not gpu and not slow and not journey" -n $(WORKERS) --dist loadgroup

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m bench

test-gpu: setup
	$(PYTEST) -m gpu -v

# Without find-links: a wheel that only this machine has must not be pinned for everybody.
constraints: setup
	env -u UV_FIND_LINKS -u PIP_FIND_LINKS $$(command -v uv || echo $(BIN)/uv) pip compile --quiet --upgrade \
	  --universal --python-version 3.11 --no-annotate --no-header --group dev --group examples \
	  pyproject.toml --output-file constraints.txt

clean:
	rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache
	find src tests tools bench examples -name __pycache__ -prune -exec rm -rf {} +
