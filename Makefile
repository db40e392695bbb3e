# Every target does its own set-up; on a fresh machine Python is enough (Go too, for the control plane of the tests).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the locked installation needs to install itself.
UV := uv==0.13.9
# Tests at a time: one more than there are cores, since many of them wait for something.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min((os.cpu_count() or 1) + 1, 8))')
# Without servers nothing waits, and each process more reads all tests once more.
UNIT_JOBS := $(if $(filter file,$(origin JOBS)),$(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 8))'),$(JOBS))
# What a run compiles is kept, also where the environment says otherwise: its processes read the same files.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest
# tests/running.py orders the tests: xdist would start the groups with the most tests first, and the longest test last.
PARALLEL := $(PYTEST) -n $(JOBS) --dist loadgroup --no-loadscope-reorder
# The files with such tests: each process then collects 50 or 60 files instead of 516.
SLOW = $(shell grep -rlE 'mark\.slow' tests --include='test_*.py')
THOROUGH = $(shell grep -rlE 'hypothesis|thorough|mark\.computes' tests --include='test_*.py')
# Folds, decides, translate and the cases: pure code, tried by path.
CORE = tests/cases tests/bus/sources $(wildcard tests/projections/test_*.py) tests/projections/cluster \
	$(addprefix tests/reactors/,budgets culling jobs queue reclaim)
SERVERLESS := not nats and not postgres and not kube and not long and not slow and not benchmark

.PHONY: help run test lint unit core controlplane acceptance cluster recording benchmarks docs sbom nats-server clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml uv.lock
	@echo "installing into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@$(BIN)/uv sync --quiet --frozen --inexact --compile-bytecode --python $(BIN)/python
	@$(BIN)/python -m compileall -q bus projections reactors migrations deploy
	@touch $@

run: $(VENV)/.installed ## Start Bursar: follow the cluster there is, or play the bundled recording
	@$(BIN)/bursar up

test: lint controlplane ## Everything that answers in minutes: contracts, types, tests on both databases and a real API server
	@$(PARALLEL)

lint: $(VENV)/.installed ## Format, rules, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

unit: $(VENV)/.installed ## The tests that start no server and no process of the program: minutes
	@$(PARALLEL) -n $(UNIT_JOBS) -m '$(SERVERLESS)'

core: $(VENV)/.installed ## The tests of pure code, with few examples: a minute
	@$(PARALLEL) -n $(UNIT_JOBS) -m '$(SERVERLESS)' --hypothesis-profile=core $(CORE)

controlplane: $(VENV)/.installed ## Build etcd, kube-apiserver and the rest for the tests, once
	@if command -v go >/dev/null || [ -n "$$KUBEBUILDER_ASSETS" ]; then $(BIN)/python -m tests.cluster.build; \
	else echo "Go is not installed: tests against a real API server will not run"; fi

acceptance: $(VENV)/.installed controlplane ## Minutes to an hour: kills, crash points, large replays, a real node
	-@$(BIN)/python -m tests.node.build
	@$(PYTEST) -m 'slow and not waits and not computes' $(SLOW)
	@$(PARALLEL) -m 'slow and waits' $(SLOW)
	@$(PARALLEL) -m 'computes or (hypothesis or thorough) and not slow' --hypothesis-profile=thorough $(THOROUGH)

cluster: controlplane ## A real control plane with simulated GPU nodes and three teams, until Ctrl-C
	@$(BIN)/python -m tests.cluster.demo

recording: $(VENV)/.installed ## Simulate a day of three teams with the product's own parts and write the bundled recording
	@$(BIN)/python -m tests.simulation

benchmarks: $(VENV)/.installed ## Every figure in tests/benchmarks/README.md
	@$(BIN)/python -m tests.benchmarks

docs: $(VENV)/.installed ## Write docs/views.md, docs/settings.md, the CRDs and the rights to read from the code
	@$(BIN)/python -m projections.views > docs/views.md
	@$(BIN)/python -m deploy.settings.reference > docs/settings.md
	@$(BIN)/python -m bus.kube.crds > deploy/manifests/crds/bursar.io.yaml
	@$(BIN)/python -m deploy.commands.rights

sbom: $(VENV)/.installed ## Write dist/bursar.spdx.json: every package that is installed with Bursar, its licence, its hashes
	@mkdir -p dist
	@$(BIN)/python deploy/image/sbom.py uv.lock > dist/bursar.spdx.json

nats-server: ## Build the bundled nats-server from its Go module, and compare it with the pinned digest (Go; two minutes)
	@python3 tests/cluster/rebuild_nats.py

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
