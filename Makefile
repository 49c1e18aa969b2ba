# Everything a newcomer needs: `make demo`, `make test`. See CONTRIBUTING.md.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# How many tests run at a time; each may hold a framework in half a gigabyte of memory. Most wait for processes most of the
# time, so that two cores are busy with five.
WORKERS ?= 5
# These compute: one for each core.
QUICK_WORKERS ?= auto --maxprocesses 8
PYTEST := $(BIN)/python -m pytest
# Tests that share a server or an account run in one worker, and in the order of conftest.py.
ORDER := --dist loadgroup --no-loadscope-reorder
# Some images forbid bytecode; without it every start would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick lint style types bytecode every-test quick-tests nightly flaky coverage docs bench conformance test-gpu acceptance constraints clean

help:
	@echo "make demo         train a small CNN through 'gpuproof run', then check the model that it saved"
	@echo "make test         lint, types, import contract and every test but those of make nightly (what CI runs)"
	@echo "make nightly      the tests that make test leaves out: benchmarks, the longest jobs and rehearsals"
	@echo "make quick        lint and the tests that start no framework, server or job (2 to 4 minutes on two cores)"
	@echo "make flaky        tests of processes and signals, 20 times on one busy core (COUNT=20)"
	@echo "make coverage     branch coverage of 'make test', also in the processes that tests start (COVERED=tests/util)"
	@echo "make lint         ruff, pyright and import-linter"
	@echo "make docs         the documentation site, in build/site (docs/ and pages from the code)"
	@echo "make bench        the figures under bench/"
	@echo "make conformance  public test suites, from the checkouts in the folder GPUPROOF_CONFORMANCE"
	@echo "make test-gpu     what needs a real NVIDIA GPU: verdicts on known work and waste, and tests"
	@echo "make acceptance   GPUproof's commands on an account of AWS, for about \$$2 (docs/acceptance.md)"
	@echo "make setup        create or update the virtual environment; the other targets do so first"
	@echo "make constraints  pin the newest versions that resolve"
	@echo "make clean        remove what these targets created, except for the virtual environment"

# Ends at once when neither pyproject.toml nor constraints.txt has changed.
setup:
	@$(PYTHON) tools/setup_venv.py $(VENV)

demo: setup
	@PATH="$(abspath $(BIN)):$$PATH" examples/demo.sh

test: setup
	@$(MAKE) --no-print-directory -j2 style bytecode
	@$(MAKE) --no-print-directory -j2 types every-test

quick: setup
	@$(MAKE) --no-print-directory -j2 style bytecode
	@$(MAKE) --no-print-directory -j2 types quick-tests

lint: style types

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/pyright

# Compiles the tests, which each of the workers would do otherwise.
bytecode: setup
	@$(PYTEST) --collect-only -qqq > /dev/null || true

every-test: setup
	$(PYTEST) -m "not gpu and not nightly" -n $(WORKERS) $(ORDER)

quick-tests: setup
	$(PYTEST) -m "not gpu and not slow and not journey and not nightly" -n $(QUICK_WORKERS) $(ORDER)

# What `make test` leaves out: benchmarks, the longest jobs and rehearsals, and other examples for Hypothesis.
nightly: setup
	$(PYTEST) -m nightly -n $(WORKERS) $(ORDER)
	GPUPROOF_NEW_EXAMPLES=1 $(PYTEST) -m "hypothesis and not gpu" -n $(WORKERS) $(ORDER)

# Tests of processes, signals and time, repeatedly on one busy core.
COUNT ?= 20
FLAKY ?= tests/util tests/test_fork_server.py tests/agent/ranks tests/backends/local emulator/tests/execution/ssh
flaky: setup
	$(BIN)/python tools/find_flaky_tests.py $(COUNT) $(FLAKY)

# Some processes end while they write their data: what the others have written counts.
COVERED ?= tests emulator/tests
coverage: setup
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -q -m "not gpu and not nightly" -n $(WORKERS) $(ORDER) $(COVERED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --format $(or $(COVERAGE_FORMAT),text)

docs: setup
	$(BIN)/python tools/build_site.py

bench: setup
	$(BIN)/python -m bench

conformance: setup
	$(BIN)/python -m bench.conformance

# GPU_PYTHON: the interpreter that has PyTorch with CUDA, if .venv has none.
test-gpu: setup
	$(BIN)/python bench/gpu_activity.py --tests $(if $(GPU_PYTHON),--python $(GPU_PYTHON))

# Asks before it creates anything: ACCEPTANCE="--region us-east-1 --list" prints the steps and their prices.
ACCEPTANCE ?=
acceptance: setup
	PYTHONPATH=tests $(BIN)/python -m acceptance $(ACCEPTANCE)

# Without find-links: a wheel that only this machine has must not be pinned for everybody.
constraints: setup
	env -u UV_FIND_LINKS -u PIP_FIND_LINKS $$(command -v uv || echo $(BIN)/uv) pip compile --quiet --upgrade \
	  --universal --python-version 3.11 --no-annotate --no-header --group dev --group docs --group examples --group libraries \
	  --no-emit-package gpuproof --no-emit-package gpuproof-emulator \
	  pyproject.toml emulator/pyproject.toml --output-file constraints.txt

clean:
	rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache
	find src emulator tests tools bench examples -name __pycache__ -prune -exec rm -rf {} +
