# The two commands: `make run` and `make test`. Both set up what they need in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
# A file's tests share what they have set up. Files are taken in the order of tests/conftest.py.
# Three at a time: those of live brokers mostly wait.
TWO_CORES := --numprocesses 3 --dist loadfile --no-loadscope-reorder

SOURCES := $(shell find src benchmarks -name __pycache__ -prune -o -name '*.egg-info' -prune -o -type f -print)

.PHONY: help run test test-quick lint setup format clean

help:
	@echo 'make run         set up, reproduce the first paper in its quick tier, write $(OUT)/report.html'
	@echo 'make test        set up and run all tests'
	@echo 'make test-quick  those that together take less than two minutes'
	@echo 'make lint        style, types and the import contract'
	@echo 'make setup       only create the environment: .venv/bin/shoal is the command'
	@echo 'make format      lay the code out as lint wants it'
	@echo 'make clean       remove the environment and everything built (results in $(OUT) stay)'

run: setup
	@$(BIN)/shoal reproduce frey-routing --quick --out $(OUT)

test: setup
	@$(BIN)/python -m pytest $(TWO_CORES)

test-quick: setup
	@$(BIN)/python -m pytest --quick $(TWO_CORES)

# These read the sources and need nothing built: .ci/run checks them while Shoal is compiled.
lint: $(VENV)/.dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports

format: $(VENV)/.dependencies
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

setup: $(VENV)/.installed

# Three steps, each remembered by a stamp: a second call does nothing, and a changed source only
# installs Shoal again.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'Shoal needs Python 3.11 or newer, and $(PYTHON) is' \
	    "$$($(PYTHON) --version 2>/dev/null || echo missing); install it (apt-get install python3)" \
	    'or name another one: make setup PYTHON=/path/to/python3.11' >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo 'Python has no venv module; install it: apt-get install python3-venv' >&2; exit 2; }
	@echo 'Creating the environment in $(VENV) …'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.dependencies: requirements.lock $(VENV)/.created
	@echo 'Installing the pinned dependencies (about 500 MB, once) …'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  --require-hashes --no-deps -r requirements.lock
	@touch $@

# What an earlier build left in build/lib would find its way into the wheel, also if it was deleted since.
$(VENV)/.installed: $(SOURCES) $(VENV)/.sources pyproject.toml setup.py README.md LICENSE $(VENV)/.dependencies
	@echo 'Building and installing Shoal …'
	@rm -rf build/lib* build/bdist*
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# The list of sources: newer than the installation when a file was added or deleted.
$(VENV)/.sources: $(VENV)/.created FORCE
	@echo '$(sort $(SOURCES))' | cmp -s - $@ || echo '$(sort $(SOURCES))' > $@

.PHONY: FORCE
FORCE:

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
