# Development tasks. Most targets run `setup` first, which is fast after the first run.
.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-unit soak lint format check console-types bench-extraction bench-splitting bench-matching bench-dead-letters bench-bulk-retry bench-offers bench-console fuzz clean
PYTHON := python3
SEED := 1
SECONDS := 600
DEAD_LETTERS := 1000000
HISTORIES := 10000
# Test folders that need a database, a cloud or a server, or that take long.
SLOW := benchmarks e2e fuzz golden infra migrations tools
# A separate package, which the product does not import.
PACKAGE := packages/powertools-postgres-idempotency
# Tests that `make soak` runs in a long form. `make test` runs 30 seconds of load, 200 histories, 8 orders of arrival, ...
SOAK := $(foreach name,chaos offers replay tasks,tests/e2e/test_$(name).py) \
	tests/tools/simulation/test_simulation.py tests/tools/test_delivery_model.py \
	tests/documents/matching/test_arrival_order.py tests/functions/test_mail_crashes.py
# Without bytecode files, every process takes several seconds longer to start.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1	\2/p' $(firstword $(MAKEFILE_LIST))

setup:  ## Prepare the environment: .venv and node_modules
	@$(PYTHON) tools/setup.py

demo: setup  ## Process sample documents in a local cloud and show the results (SEED=1)
	@.venv/bin/counterfoil demo --seed $(SEED)

up: setup  ## Start the local cloud
	@.venv/bin/counterfoil up

down: setup  ## Stop the local cloud and delete all its data
	@.venv/bin/counterfoil down

test: setup  ## Run all tests, including end-to-end tests in separate local clouds
	@.venv/bin/python -m pytest --numprocesses auto

test-unit: setup  ## Run the fast tests, without a database or a cloud
	@.venv/bin/python -m pytest --numprocesses 2 -m "not database and not slow" $(SLOW:%=--ignore=tests/%) --ignore=packages

soak: setup  ## Run load and crash tests (SECONDS=600 each) and the simulation (HISTORIES=10000)
	@COUNTERFOIL_SOAK_SECONDS=$(SECONDS) COUNTERFOIL_HISTORIES=$(HISTORIES) COUNTERFOIL_ORDERS=40 .venv/bin/python -m pytest $(SOAK)

lint: setup  ## Check style, types, import contracts, English and dependencies
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/codespell
	@.venv/bin/python -m tools.prose_lint
	@.venv/bin/deptry .
	@cd tools && ../.venv/bin/deptry .
	@cd $(PACKAGE) && $(CURDIR)/.venv/bin/mypy && $(CURDIR)/.venv/bin/deptry .
	@.venv/bin/python -m tools.console lint

console-types: setup  ## Write the console's types from the OpenAPI description
	@.venv/bin/python -m tools.console types

format: setup  ## Format the code
	@.venv/bin/ruff format
	@.venv/bin/python -m tools.console format

check: lint test  ## Run all checks required before a change is submitted

bench-extraction: setup  ## Compare extraction from pages with the XML in hybrid PDFs (DATA=folder)
	@.venv/bin/python -m tests.benchmarks.extraction $(DATA)

bench-splitting: setup  ## Measure how files with several documents are split, with random combinations of real PDFs (DATA=folder)
	@.venv/bin/python -m tests.benchmarks.splitting $(DATA)

bench-matching: setup  ## Compare matching with other tools on labeled sets (DATA=folder), and measure it with a million documents
	@.venv/bin/python -m tests.benchmarks.matching $(DATA)
	@.venv/bin/python -m tests.benchmarks.scale

bench-dead-letters: setup  ## Measure lists, searches, groups and exports of ten million generated dead letters
	@.venv/bin/python -m tests.benchmarks.dead_letters

bench-bulk-retry: setup  ## Retry a million dead letters while processes are killed (DEAD_LETTERS=1000000)
	@.venv/bin/python -m tests.benchmarks.bulk_retry --dead-letters $(DEAD_LETTERS)

bench-offers: setup  ## Compare the offers of 100,000 people with plain Python and SQL, and store a day of offers for a million
	@.venv/bin/python -m tests.benchmarks.offers
	@.venv/bin/python -m tests.benchmarks.offers_day

bench-console: setup  ## Load the console in a browser with an empty cache, then poll as its open pages do
	@.venv/bin/python -m tests.benchmarks.console
	@.venv/bin/python -m tests.benchmarks.console_polling

fuzz: setup  ## Fuzz every parser of external data (SECONDS=600 each)
	@.venv/bin/python -m tests.fuzz --seconds $(SECONDS)

clean:  ## Delete all generated files
	@test ! -x .venv/bin/counterfoil || .venv/bin/counterfoil down
	@rm -rf build cdk.out node_modules .venv
