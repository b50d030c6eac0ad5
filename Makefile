# Each target sets up what it needs: `make demo` and `make test` work as the first command after cloning.
PYTHON ?= python3
BIN := .venv/bin
WORKERS := -n auto --maxprocesses 4 --dist worksteal

.PHONY: demo test test-all test-long check format docs dist bench clean

demo: .venv/installed
	$(BIN)/isotherm demo

test: .venv/developing
	$(BIN)/python -m pytest $(WORKERS)

# What `make test` leaves: every combination of options, faults, several processes, statistics, the zoo of models.
test-all: test
	$(BIN)/python -m pytest $(WORKERS) -m 'slow and not long'

test-long: .venv/developing
	$(BIN)/python -m pytest -m long

check: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, in site/; a link that leads nowhere is an error. `.venv/bin/mkdocs serve` shows it while one writes.
docs: .venv/documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

# Wheel and sdist, in dist/, and the README's code in a clean environment with each.
dist: .venv/created
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build
	PYTHON="$(abspath $(BIN)/python)" .ci/try-dist

bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/run.py
	.venv-bench/bin/python benchmarks/lanczos.py
	.venv-bench/bin/python benchmarks/threefry.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache site

.venv/created:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"isotherm needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; name another one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/installed: pyproject.toml | .venv/created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli,plots]'
	touch $@

.venv/developing: pyproject.toml | .venv/created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/installed

.venv/documenting: pyproject.toml | .venv/created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

# The peers of the benchmark live in an environment of their own; posteriors needs PyTorch.
.venv-bench/installed: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e '.[paper]' matfree posteriors torch==2.13.0
	touch $@
