# make demo      set everything up and run the demonstration
# make test      set everything up and run the checks: lint, types, tests and their coverage (under 6 minutes)
# make test-full the same, then the slow and statistical tests (36 minutes in all)
# make docs      build the documentation site into site/
# make install   only the set-up: a virtual environment in .venv

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: install demo test test-full docs lint quick format bench clean

# Some machines forbid it; without, every process of the tests compiles the package anew.
export PYTHONDONTWRITEBYTECODE :=

install: $(INSTALLED)

# The stamp is written last, so an interrupted installation is done again.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ascertain needs Python 3.11 or newer; choose one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cluster,serve,dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/ascertain demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

quick: $(INSTALLED)
	@rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n 2 -q --dist loadfile -p tests.statements
	@$(BIN)/coverage combine --quiet
	@printf 'Percentage of all statements that were run: ' && $(BIN)/coverage report --format=total

# Side by side, as mypy keeps one core busy at most.
test: $(INSTALLED)
	@$(MAKE) --no-print-directory -j 2 lint quick

test-full: test
	$(BIN)/pytest -n 2 -q --dist worksteal -m slow

docs: $(INSTALLED)
	@$(BIN)/python -c 'import mkdocstrings' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site begins at site/index.html. To search it: python3 -m http.server -d site"

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/methods.py

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find src -name __pycache__ -prune -exec rm -r {} +
