# Every target makes its own virtual environment in .venv and needs only python3 (3.11+), make and git.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check test test-app test-wheel test-start test-portable test-slow lint bench docs clean

# Files that meet the operating system most: files, locks, processes, the shell and the page.
PORTABLE := tests/test_workspace.py tests/test_decisions.py tests/test_imports.py tests/test_segy.py \
	tests/test_volume.py tests/test_cli.py tests/test_server.py
# Files that meet every dependency but torch.
OLDEST := $(PORTABLE) tests/test_minimal.py tests/test_encoder.py tests/test_job.py tests/test_labels.py \
	tests/test_plots.py tests/test_report.py tests/test_bodies.py tests/test_faults.py tests/test_cluster.py

demo: .venv/run        ## the whole job on an embedded synthetic volume; report in demo/
	$(BIN)/outcrop demo -o demo

check: .venv/dev       ## style, types, import order, vocabulary and the tests of changes since main: under a minute
	$(BIN)/python tools/check.py

test: .venv/dev        ## lint, types, import order, vocabulary, doctests and tests
	$(BIN)/ruff check src tests tests_app benchmarks tools
	$(BIN)/ruff format --check src tests tests_app benchmarks tools
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/lint-imports
	$(BIN)/python tools/prose.py --check
	$(BIN)/pytest || $(BIN)/pytest --last-failed  # once more: on a busy machine a thread may miss a time limit

test-app: .venv/dev    ## the interpreter's page in a real browser; needs chromium
	$(BIN)/python -m pip install -q playwright axe-playwright-python pytest-xdist
	$(BIN)/pytest -n 2 tests_app || $(BIN)/pytest --last-failed tests_app  # alone, a slow machine meets the time limits

test-wheel: .venv/run  ## the wheel in an empty environment with the newest dependencies: demo and page
	$(BIN)/python tools/try_wheel.py

test-start: .venv/run  ## docs/start.md word for word in an empty environment; prints the minutes
	$(PYTHON) tools/follow_start.py

test-portable: .venv/dev  ## tests without fcntl, resource and os.sysconf, with spawn; TESTS=tests for all of them
	PYTHONPATH=tests/blocked OUTCROP_BLOCKED=posix $(BIN)/pytest $(or $(TESTS),$(PORTABLE))

test-slow: .venv/dev   ## all tests without POSIX; the five-minute start; the wheel with the oldest dependencies it allows
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(MAKE) test-portable TESTS=tests
	$(MAKE) test-start
	$(BIN)/python tools/try_wheel.py --oldest --tests $(OLDEST)

lint: .venv/dev        ## repair style automatically
	$(BIN)/ruff check --fix src tests tests_app benchmarks tools
	$(BIN)/ruff format src tests tests_app benchmarks tools

bench: .venv/dev       ## speed and memory as ratios; prints one table
	$(BIN)/python -m pip install -q faiss-cpu
	$(BIN)/python benchmarks/retrieval.py
	$(BIN)/python benchmarks/retrieval.py --growth
	$(BIN)/python benchmarks/mapping.py
	$(BIN)/python benchmarks/labelling.py
	$(BIN)/python benchmarks/cluster.py --short
	$(BIN)/python benchmarks/bytes.py
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/costs.py --paper
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
