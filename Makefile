# What a contributor types; CONTRIBUTING.md says what each of these proves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test lint types live docs help

help:  ## List what there is to make
	@grep -E "^[a-z]+:.*## " $(MAKEFILE_LIST) | sed "s/:.*## /	/" | expand -t 10

setup:  ## Make .venv with the core, every plugin and all tools
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -U "pip>=25.1"
	$(BIN)/pip install -q -r requirements-dev.txt "tox>=4.23" "pre-commit>=4"
	$(BIN)/pip install -q --group screens --group servers --group lint --group types --group imports

test:  ## Run what has to pass, without the programs of vendors
	$(BIN)/tox run -e core,py311

lint:  ## Format, and say what is wrong
	$(BIN)/ruff format .
	$(BIN)/ruff check .

types:  ## Check types and imports
	$(BIN)/tox run -e types

live:  ## Run the programs of vendors against loopback servers
	$(BIN)/tox run -e live

docs:  ## Write the parts of documents that are made
	$(BIN)/python tests/reference.py --sync
	$(BIN)/python tests/contract.py
	$(BIN)/python tests/requirements.py --sync
	$(BIN)/python plugins/prsm_tui/tests/reference.py
