# What can be done with this project. Each line calls one thing; everything begins with `setup`, which is quick the second time.
.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-unit soak lint format check bench-extraction bench-splitting bench-matching bench-dead-letters bench-bulk-retry bench-offers bench-console fuzz clean
PYTHON := python3
SEED := 1
SECONDS := 600
LETTERS := 1000000
HISTORIES := 10000
# Folders of tests with databases, clouds, servers or much computation.
SLOW := benchmarks e2e fuzz golden infra migrations tools
# Works without the product, which does not import it.
PACKAGE := packages/powertools-postgres-idempotency
# Tests that `make test` runs in a short form: load for 30 seconds, 200 simulated histories, 8 orders of arrival, ...
SOAK := $(foreach name,chaos offers replay tasks,tests/e2e/test_$(name).py) \
	tests/tools/simulation/test_simulation.py tests/tools/test_delivery_model.py \
	tests/documents/matching/test_order_of_arrival.py tests/functions/test_mail_crashes.py
# Without compiled modules, every process starts several seconds later.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1	\2/p' $(firstword $(MAKEFILE_LIST))

setup:  ## Prepare the environment: .venv and node_modules
	@$(PYTHON) tools/setup.py

demo: setup  ## Process sample documents in a local cloud and show the results (SEED=1)
	@.venv/bin/counterfoil demo --seed $(SEED)

up: setup  ## Bring the local cloud up and leave it up
	@.venv/bin/counterfoil up

down: setup  ## Take the local cloud down and delete all that it holds
	@.venv/bin/counterfoil down

test: setup  ## Run every test, end-to-end tests on a local cloud of their own among them
	@.venv/bin/python -m pytest --numprocesses auto

test-unit: setup  ## Run the quick tests: no database, no cloud, nothing that takes a second
	@.venv/bin/python -m pytest --numprocesses 2 -m "not database and not slow" $(SLOW:%=--ignore=tests/%) --ignore=packages

soak: setup  ## Run the tests under load and kills (SECONDS=600 for each), and the simulation (HISTORIES=10000)
	@COUNTERFOIL_SOAK_SECONDS=$(SECONDS) COUNTERFOIL_HISTORIES=$(HISTORIES) COUNTERFOIL_ORDERS=40 .venv/bin/python -m pytest $(SOAK)

lint: setup  ## Check style, types, import contracts, spelling and dependencies
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@.venv/bin/codespell
	@.venv/bin/deptry .
	@cd tools && ../.venv/bin/deptry .
	@cd $(PACKAGE) && $(CURDIR)/.venv/bin/mypy && $(CURDIR)/.venv/bin/deptry .

format: setup  ## Put the code into its format
	@.venv/bin/ruff format

check: lint test  ## Everything that has to hold before a change is handed in

bench-extraction: setup  ## Measure what is read from pages against the XML inside hybrid PDFs (DATA=folder)
	@.venv/bin/python -m tests.benchmarks.extraction $(DATA)

bench-splitting: setup  ## Measure how files of many documents are taken apart, on real PDFs glued at random (DATA=folder)
	@.venv/bin/python -m tests.benchmarks.splitting $(DATA)

bench-matching: setup  ## Measure matching on labelled sets, beside others (DATA=folder), and among a million documents
	@.venv/bin/python -m tests.benchmarks.matching $(DATA)
	@.venv/bin/python -m tests.benchmarks.scale

bench-dead-letters: setup  ## Ask for pages, searches and groups of ten million dead letters that are made up, and export a million
	@.venv/bin/python -m tests.benchmarks.dead_letters

bench-bulk-retry: setup  ## Try a million dead letters again while those who do it are killed (LETTERS=1000000)
	@.venv/bin/python -m tests.benchmarks.bulk_retry --letters $(LETTERS)

bench-offers: setup  ## Compute offers of 100,000 people beside plain Python and SQL; then a day of a million, stored
	@.venv/bin/python -m tests.benchmarks.offers
	@.venv/bin/python -m tests.benchmarks.offers_day

bench-console: setup  ## Load the console in a browser that has nothing of it yet; then ask what its open pages ask
	@.venv/bin/python -m tests.benchmarks.console
	@.venv/bin/python -m tests.benchmarks.polled

fuzz: setup  ## Feed every parser of foreign bytes with what a fuzzer makes up (SECONDS=600 for each)
	@.venv/bin/python -m tests.fuzz --seconds $(SECONDS)

clean:  ## Delete everything that was made
	@test ! -x .venv/bin/counterfoil || .venv/bin/counterfoil down
	@rm -rf build cdk.out node_modules .venv
