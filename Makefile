# Everything a newcomer needs: `make demo`, `make test`. See CONTRIBUTING.md.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# uv does not read pip's find-links by itself.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_LINK_MODE ?= copy

.PHONY: help setup demo test lint quick bench test-gpu constraints clean

help:
	@echo "make demo        train a small CNN through 'tarmac run', then check the model it saved"
	@echo "make test        lint, types, import contract and every test"
	@echo "make quick       lint and the tests that need no framework"
	@echo "make bench       the figures under bench/"
	@echo "make test-gpu    the tests that need a real NVIDIA GPU"
	@echo "make constraints pin the newest versions that resolve"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) tools/setup_venv.py $(VENV)
	@touch $@
