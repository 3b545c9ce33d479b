PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow setup lint clean

demo: $(VENV)/.demo  ## set up and run the main job: 20 clients, Deep Sea Treasure, FedPref
	$(BIN)/comity run deep-sea-treasure

test: setup lint  ## set up and pass all fast tests
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: setup  ## the long checks
	$(BIN)/pytest -n 2 -m slow

setup: $(VENV)/.setup  ## the environment with all extras and development tools

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.setup: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[box2d,mujoco,dev]"
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
