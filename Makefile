PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FLOWER := .venv-flower
LOWEST := .venv-lowest
NEWEST := .venv-newest
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
RANGE := -n 2 -m "not slow and not flower" --ignore tests/explore/browser $(addprefix tests/,api callbacks cli configuration \
	core datasets explore federation learners links problems report runs searches tuning e2e/test_run.py test_api.py test_extras.py)
SEED ?= 1
SPACE := examples/space
SATELLITES := --links runs/contacts.csv --encoding int8 --preferences $(SPACE)/preferences.csv

.PHONY: demo space test coverage test-slow test-flower test-lowest test-newest docs release setup flower lint clean

demo: $(VENV)/.demo  ## set up and run the main job: 20 clients, Deep Sea Treasure, FedPref
	$(BIN)/comity run deep-sea-treasure

space: $(VENV)/.space runs/contacts.csv  ## ten satellites, over links of minutes a day
	$(BIN)/comity plan statlog-landsat --links runs/contacts.csv --encoding int8 --out runs/plan.png
	$(BIN)/comity run statlog-landsat $(SATELLITES)
	$(BIN)/comity compare statlog-landsat $(SATELLITES) --algorithms no-communication,fedavg,fedpref --seeds 5

test: setup lint  ## set up and pass all fast tests, in the order that SEED draws
	$(BIN)/pytest -n 2 -m "not slow and not flower" --randomly-seed=$(SEED)

coverage: setup  ## lines that the fast tests execute, per room of the package
	$(BIN)/pytest -n 2 -m "not slow and not flower" --cov --cov-report=
	$(BIN)/python -m tests.covered

test-slow: setup  ## the long checks
	$(BIN)/pytest -n 2 -m slow

test-flower: setup flower  ## the transport on Flower, with real processes
	COMITY_FLOWER_BIN=$(FLOWER)/bin $(BIN)/pytest -m flower

test-lowest: $(LOWEST)/.setup  ## what calls other libraries, with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/pytest -W ignore::DeprecationWarning $(RANGE)

test-newest: $(NEWEST)/.setup  ## the same with the newest versions there are; of torch that of constraints.txt
	$(NEWEST)/bin/pytest $(RANGE)

docs: setup  ## the site, below site/: warnings and broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo site/index.html

release: setup docs  ## build, look into the wheel, install it in an empty environment, run the demo from there
	rm -rf dist build/wheel && mkdir -p build
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m tests.wheel dist
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(ls dist/*.whl)[environments]"
	cd build/wheel && bin/comity --version && bin/comity run deep-sea-treasure

setup: $(VENV)/.setup  ## the environment with all extras and development tools

flower: $(FLOWER)/.setup  ## the environment of Flower's processes: no torch, no Comity

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[environments]"
	@touch $@

$(VENV)/.space: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[environments,space]"
	@touch $@ $(VENV)/.demo

runs/contacts.csv: $(SPACE)/orbits.tle $(SPACE)/stations.csv | $(VENV)/.space
	@mkdir -p runs && rm -f $@
	$(BIN)/comity contacts $^ --days 3 --out $@

$(VENV)/.setup: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable ".[box2d,mujoco,dev]"
	@touch $@ $(VENV)/.demo $(VENV)/.space

$(FLOWER)/.setup: constraints-flower.txt
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/pip install --quiet --disable-pip-version-check --constraint $< flwr
	@touch $@

$(LOWEST)/.setup: constraints-lowest.txt
$(NEWEST)/.setup: build/constraints-newest.txt
$(LOWEST)/.setup $(NEWEST)/.setup: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --upgrade pip  # that of Python 3.11 cannot resolve these
	$(@D)/bin/pip install --quiet --constraint $(filter-out pyproject.toml,$^) --editable ".[box2d,mujoco,dev]"
	@touch $@

build/constraints-newest.txt: constraints.txt
	@mkdir -p build
	grep ^torch== $< >$@

clean:
	rm -rf $(VENV) $(FLOWER) $(LOWEST) $(NEWEST) build dist site .venv-peers .mypy_cache .ruff_cache .pytest_cache .coverage
