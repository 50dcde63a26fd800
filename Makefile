# Bare `make` lists the targets. Needs Python 3.11 and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

UV_VERSION := 0.13.8
PY := .venv/bin/python
VENV := .venv/.installed
COMPILE := .venv/bin/uv pip compile --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url --quiet
CHECKED := spark_apps plugins embedded examples benchmarks dags tests

DIST := dist

.PHONY: help demo install wheels hooks test unit affected long share long-status cluster-test soak mutants up cql psql airflow down status bench jars worker-packages lint fmt typing docs schemas lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)  ## run the main job over January 2013 (DEMO_MONTHS=12: the whole year)
	@$(PY) -m embedded demo

# Two workers for two cores, and one for the tests that mostly wait (tests/scheduling/plan.py).
# Of tests/integration half, unless PYTEST_ARGS names tests.
test: lint typing  ## lint, type-check and run the tests, of tests/integration half, on servers of their own
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 3 $(if $(findstring tests/,$(PYTEST_ARGS)),,--half) \
	  $(PYTEST_ARGS)

unit: $(VENV)  ## run the tests that need neither a server nor Spark, in about two minutes
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 2 -m "not spark" tests/unit $(PYTEST_ARGS)

# Exit status 5 is that of a run without tests.
affected: $(VENV)  ## run the tests that changes since SINCE (main), committed or not, can break; say which are left out
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 3 --affected $(or $(SINCE),main) \
	  $(PYTEST_ARGS) || [[ $$? == 5 ]]

long: $(VENV)  ## run what `make test` leaves out
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 3 $(if $(findstring tests/,$(PYTEST_ARGS)),,--half) \
	  --long -m long $(PYTEST_ARGS)

# With UNTIL the tests that have not ended then are stopped, and those that have decide.
share: $(VENV)  ## run this commit's share of the tests that take long, up to UNTIL (Unix time) or the first failure
	@left=$$(($${UNTIL:-$$(date +%s)} - $$(date +%s))); \
	if [[ -n $${UNTIL:-} && $$left -le 0 ]]; then echo "share: no time is left"; exit 0; fi; \
	TIDEMARK_STATE=$(CURDIR)/.tidemark/test timeout --kill-after 300 $$left $(PY) -m pytest --numprocesses 3 \
	  --share --maxfail 1 $(PYTEST_ARGS) || \
	  { status=$$?; [[ $$status == 124 || ($$status == 137 && $$(date +%s) -ge $${UNTIL:-9999999999}) ]]; }

long-status: $(VENV)  ## show when each of these tests last ran here
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --long-status -q -p no:cacheprovider || [[ $$? == 5 ]]

cluster-test: $(VENV)  ## run the tests of applications on a Spark cluster of two workers, and with CLUSTER_TESTS others there, too
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 2 --long --cluster tests/cluster \
	  $${CLUSTER_TESTS:-tests/integration/tag_write/test_tag_write.py tests/integration/project/test_modes.py \
	  tests/integration/project/test_fold.py tests/integration/project/test_decoders.py \
	  tests/integration/validate/test_validate.py tests/integration/reconcile/test_rebuild.py \
	  tests/integration/replicate/test_replicate.py tests/integration/purge/test_purge.py \
	  tests/integration/reconcile/test_cleanup.py tests/integration/event_groups/test_many.py} $(PYTEST_ARGS)

soak: $(VENV)  ## run all, kill at every boundary and SOAK_KILLS (100) times more, a whole year, LIVE_HISTORIES (200) weeks
	@TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m pytest --numprocesses 3 \
	  --soak --kills $${SOAK_KILLS:-100} --timeout 0 $(PYTEST_ARGS)

mutants: $(VENV)  ## change the rules of the pure rooms, a place at a time, and see which tests notice: ROOM=write_times
	@$(PY) -m tests.mutants $(ROOM)

up: $(VENV)  ## start Cassandra, Kafka, PostgreSQL and Airflow, print Airflow's address
	@$(PY) -m embedded up

install: $(VENV)  ## make .venv with the locked packages, for calls by hand

cql: $(VENV)  ## open cqlsh on the embedded Cassandra: make cql ARGS='-e "SELECT * FROM tidemark.run"'
	@$(PY) -m embedded cql $(ARGS)

psql: $(VENV)  ## open psql on the embedded PostgreSQL: make psql ARGS='-c "SELECT 1"'
	@$(PY) -m embedded psql $(ARGS)

airflow: $(VENV)  ## run a command of Airflow on the embedded one: make airflow ARGS='dags list'
	@$(PY) -m embedded airflow $(ARGS)

down:  ## stop everything that was started here
	@if [[ -x $(PY) ]]; then \
	  $(PY) -m embedded down; TIDEMARK_STATE=$(CURDIR)/.tidemark/test $(PY) -m embedded down; fi

status: $(VENV)  ## show what runs, and where
	@$(PY) -m embedded status

bench: $(VENV)  ## measure the applications compared with the plain connector, and with Pekko's and Akka's own tools
	@$(PY) -m benchmarks
	@$(PY) -m benchmarks.tag_views
	@$(PY) -m benchmarks.projections
	@$(PY) -m benchmarks.upserts
	@$(PY) -m benchmarks.postgres
	@$(PY) -m benchmarks.slices
	@$(PY) -m benchmarks.validate
	@$(PY) -m benchmarks.ledger
	@$(PY) -m benchmarks.replicate
	@$(PY) -m benchmarks.event_groups
	@$(PY) -m benchmarks.payloads
	@$(PY) -m benchmarks.event_groups_many
	@$(PY) -m benchmarks.shortcuts
	@$(PY) -m benchmarks.chain
	@$(PY) -m benchmarks.cores
	@$(PY) -m benchmarks.status

jars: $(VENV)  ## fetch the jars of Cassandra and of Spark's sources
	@$(PY) -m embedded jars

worker-packages: $(VENV)  ## make the archive of packages for Spark's workers whose Python has none: ALSO='name ...'
	@$(PY) -m embedded worker-packages $(ALSO)

wheels: $(VENV)  ## build the wheels of the library and of Airflow's plugin into DIST (dist)
	@for house in spark_apps plugins; do \
	  .venv/bin/uv build --wheel --quiet --no-build-isolation --python $(PY) --out-dir $(DIST) $$house; done

hooks: $(VENV)  ## run the checks of .pre-commit-config.yaml before each commit in this checkout
	@.venv/bin/pre-commit install

lint: $(VENV)  ## ruff: style and format; codespell; which room imports which; nothing is changed
	@.venv/bin/ruff check $(CHECKED)
	@.venv/bin/ruff format --check $(CHECKED)
	@.venv/bin/codespell $(CHECKED) include docs *.md Makefile
	@PYTHONPATH=.:spark_apps:plugins .venv/bin/lint-imports --no-logo

fmt: $(VENV)  ## ruff: put style and format right
	@.venv/bin/ruff check --fix $(CHECKED)
	@.venv/bin/ruff format $(CHECKED)

typing: $(VENV)  ## mypy --strict
	@.venv/bin/mypy

docs: $(VENV)  ## build the documentation as a site, .tidemark/site (SERVE=1: with search, on port 8000)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=.:spark_apps:plugins $(PY) -m mkdocs $(if $(SERVE),serve,build --strict --quiet)
	@echo "docs: .tidemark/site/index.html"

schemas: $(VENV)  ## write what is made from code: include/schemas (for editors), the rooms in docs/architecture.md
	@$(PY) -m tests.schemas
	@$(PY) -m tests.rooms

# What both locks have is of one version: the second is resolved within the first.
lock: $(VENV)  ## resolve requirements.txt and requirements-dev.txt, uv and the jars into their locks
	@$(COMPILE) requirements.txt -o requirements.lock
	@$(COMPILE) requirements-dev.txt --constraint requirements.lock -o requirements-dev.lock
	@echo "uv==$(UV_VERSION)" | $(COMPILE) - -o requirements-uv.lock
	@$(PY) -m embedded lock-jars

clean: down  ## stop everything, then delete its data and the virtual environment
	@rm -rf .venv .tidemark .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The virtual environment follows the lock: a changed lock is installed at the next call.
$(VENV): requirements-dev.lock requirements-uv.lock spark_apps/pyproject.toml
	@python=$$(command -v python3.11 || command -v python3 || true); \
	found=$$("$${python:-false}" -c 'import sys; print("%d.%d" % sys.version_info[:2])' || echo none); \
	if [[ $$found != 3.11 ]]; then \
	  echo "make: Python 3.11 is needed, found $$found: $${python:-no python3 on the PATH};" \
	    "install it or put it first on the PATH" >&2; exit 1; fi; \
	if [[ $$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1) != 3.11 ]]; then \
	  echo "venv: creating .venv with Python $$found"; "$$python" -m venv --clear .venv; fi
	@if [[ $$(.venv/bin/uv --version 2>&1) != "uv $(UV_VERSION)"* ]]; then \
	  echo "venv: installing uv $(UV_VERSION)"; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	    --requirement requirements-uv.lock; fi
	@echo "venv: installing $$(grep -c == requirements-dev.lock) locked packages (1.7 GB; the first time takes minutes)"
	@VIRTUAL_ENV=.venv .venv/bin/uv pip sync --require-hashes --compile-bytecode requirements-dev.lock
	@VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --no-deps --offline --no-build-isolation --editable spark_apps
	@touch $@
