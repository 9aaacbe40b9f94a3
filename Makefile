# make demo           install everything, write photos, tune the example script on them
# make check          lint, types, layers and the tests that need no TensorFlow, in about a minute
# make test           lint, types, layers and all tests
# make test-deep      all cases of all tests, and thousands of random pipelines; DRAWS=25000 sets how many
# make test-versions  test compat, and tune and run a script, on the oldest and newest releases
# make truth          score Uncork on scripts with known bottlenecks; ONLY="input host/callbacks" selects some
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait now and then: two processes more than there are cores.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(6, (os.cpu_count() or 1) + 2))')
# Test modules are rewritten and compiled once, not by each process of each run.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
DRAWS ?= 5000
READY := $(VENV)/.ready
# Packages and tests that run where no TensorFlow is installed.
WITHOUT_TENSORFLOW = $(foreach each,core optimizations rules report codemod cli,tests/$(each) src/uncork/$(each)) \
  tests/pycode/syntax src/uncork/pycode/syntax
# TensorFlow 2.18 has no package for Python 3.13.
VERSIONS_PYTHON ?= python3.11

.PHONY: help setup demo lint check test test-deep test-versions test-oldest test-newest truth clean

help:
	@sed -n 's/^# make/make/p' $(MAKEFILE_LIST)

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "$$($(PYTHON) --version) found, but TensorFlow needs Python 3.10 to 3.13;"; \
	  echo "name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cpu,dev,demo]'
	@touch $@

demo: $(READY)
	$(BIN)/python examples/make_photos.py demo/photos --count 2000 --seed 0
	$(BIN)/uncork tune --plan demo/plan.json --report demo/report.html examples/photos.py demo/photos
	@echo "The plan is demo/plan.json. Open demo/report.html in a browser to see each optimization."

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(PYTEST) --quiet $(WITHOUT_TENSORFLOW)

test: lint
	$(PYTEST) --durations 10 --durations-min 5

test-deep: $(READY)
	UNCORK_EXAMPLES=$(DRAWS) $(PYTEST) --deep --timeout 0

# Each environment is created again: what is the newest release today need not be so tomorrow.
test-versions: test-oldest test-newest

test-oldest: RELEASES = . 'tensorflow-cpu==2.18.*' 'keras==3.7.*'
test-newest: RELEASES = '.[cpu]'
test-oldest test-newest: test-%:
	$(VERSIONS_PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable $(RELEASES) pytest pytest-timeout
	.venv-$*/bin/python -m pip list | grep -iE '^(tensorflow|keras|numpy)'
	.venv-$*/bin/python -m pytest src/uncork/compat tests/compat tests/versions/smoke.py

truth: $(READY)
	$(BIN)/python -m benchmarks.truth $(ONLY)

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
