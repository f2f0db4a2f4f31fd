# make demo   installs what it needs into .venv and runs the whole story on a simulated company
# make test   installs and runs lint, types, layers and tests
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt
EXTRAS := dev,privacy,flare,spark,clickhouse,evtx,service,kafka,pyg,tensorboard,mlflow,docs,notebooks,console

.PHONY: demo test lint docs wheel bench clean

demo: $(VENV)/.base
	$(BIN)/entente demo --out demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov=entente --cov=entente_lab --cov-report=term:skip-covered

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/unused.py

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# dist/: wheel and sdist, the same bytes from the same commit
wheel: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
wheel: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python tools/stamp.py
	$(BIN)/python -m build --no-isolation --outdir dist . ; status=$$? ; $(BIN)/python tools/stamp.py --remove ; exit $$status

bench: $(VENV)/.dev
	$(BIN)/entente bench speed

# torch goes first and by itself: a resolver left to choose takes a build with gigabytes of CUDA.
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	touch $@

$(VENV)/.base: $(VENV)/.torch pyproject.toml
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) -e ".[$(EXTRAS)]"
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) demo build docs/_build docs/generated src/*.egg-info
