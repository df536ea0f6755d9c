# Two commands do everything: `make serve` runs the service, `make test` runs all that CI runs.
PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint requirements.lock

# The first says how long /healthz takes beside work; the others start and kill processes, which would hold up the rest.
ALONE := tests/e2e/test_concurrency.py tests/e2e/test_kills.py tests/e2e/test_kill_workers.py \
	tests/e2e/test_score_interrupted.py tests/e2e/test_ray.py

.DEFAULT_GOAL := help
.PHONY: help serve test lint lock clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

serve: $(VENV)/serve.stamp  ## install what is needed and serve on port 8000
	$(BIN)/plumbline serve --host $(HOST) --port $(PORT)

test: $(VENV)/test.stamp lint  ## install what is needed and run every check, as CI does
	$(BIN)/python -m pytest $(ALONE)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ALONE:%=--ignore=%)

lint: $(VENV)/test.stamp  ## format, lint and strict types, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

lock: $(VENV)/test.stamp  ## resolve the dependencies anew; the CUDA packages that PyTorch's default build names stay out
	$(BIN)/python -m pip --disable-pip-version-check --quiet install uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate --no-header --upgrade \
		pyproject.toml | grep -vE '^(nvidia-|cuda-|triton)' > requirements.lock.new
	{ echo '# Versions that this project is tested with; made by `make lock`, used as pip constraints.'; \
		cat requirements.lock.new; } > requirements.lock
	rm requirements.lock.new

clean:  ## remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Plumbline needs Python 3.11 or later; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/serve.stamp: $(VENV)/bin/python pyproject.toml requirements.lock
	$(PIP) --editable '.[offline,openvino]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/bin/python pyproject.toml requirements.lock
	$(PIP) --editable '.[offline,openvino,dev]'
	@touch $@ $(VENV)/serve.stamp
