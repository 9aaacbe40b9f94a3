# make demo   set everything up, write photos, tune the example script on them
# make test   set everything up, check the code, run the tests
# make truth  judge Uncork on scripts whose brake is known; ONLY="input host/callbacks" chooses
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for a third of their time: one more at work than there are cores.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
READY := $(VENV)/.ready

.PHONY: help setup demo lint test truth clean

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
	@echo "The plan is demo/plan.json. Open demo/report.html in a browser to see the road."

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

truth: $(READY)
	$(BIN)/python -m benchmarks.truth $(ONLY)

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
