# Every target makes its own virtual environment in .venv and needs only python3 (3.11+), make and git.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-app lint bench docs clean

demo: .venv/run        ## the whole job on an embedded synthetic volume; report in demo/
	$(BIN)/outcrop demo -o demo

test: .venv/dev        ## lint, types, import order, doctests and tests
	$(BIN)/ruff check src tests tests_app benchmarks
	$(BIN)/ruff format --check src tests tests_app benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

test-app: .venv/dev    ## the interpreter's page in a real browser; needs chromium
	$(BIN)/python -m pip install -q playwright
	$(BIN)/pytest tests_app

lint: .venv/dev        ## mend what can be mended by itself
	$(BIN)/ruff check --fix src tests tests_app benchmarks
	$(BIN)/ruff format src tests tests_app benchmarks

bench: .venv/dev       ## speed and memory as ratios; prints one table
	$(BIN)/python -m pip install -q faiss-cpu
	$(BIN)/python benchmarks/retrieval.py
	$(BIN)/python benchmarks/retrieval.py --growth
	$(BIN)/python benchmarks/mapping.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/app.py

docs: .venv/dev        ## the site in site/, tutorials run; OUTCROP_DOCS=plain leaves them out
	$(BIN)/python -m pip install -q -e ".[docs]"
	$(BIN)/ruff check docs
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/run: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Outcrop needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -e .
	touch $@

.venv/dev: .venv/run pyproject.toml
	$(BIN)/python -m pip install -q -e ".[dev,dask,app]"
	touch $@

clean:
	rm -rf .venv demo build dist site
