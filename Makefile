# make demo   installs what it needs into .venv and runs the whole story on a simulated company
# make test   installs and runs lint, types, layers and tests
# make lock, sbom, licences, audit, bandit   the supply chain (docs/supply-chain.md)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt
EXTRAS := dev,privacy,flare,spark,clickhouse,evtx,service,kafka,pyg,tensorboard,mlflow,docs,notebooks,console

# Three workers for two cores: one of them has the federation on loopback and waits most of the time (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest -n 3 --no-loadscope-reorder --durations=20
SUPPLY := $(VENV)-supply/bin
LOCKS  := requirements.lock requirements-torch.lock

.PHONY: demo test coverage lint docs wheel bench lock sbom licences audit bandit clean

demo: $(VENV)/.base
	$(BIN)/entente demo --out demo

test: lint
	$(PYTEST)

# slower, so not part of `make test`
coverage: lint
	$(PYTEST) --cov=entente --cov=entente_lab --cov-report=term:skip-covered

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/unused.py

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# dist/: wheel and sdist
wheel: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
wheel: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python tools/stamp.py
	$(BIN)/python -m build --no-isolation --outdir dist . ; status=$$? ; $(BIN)/python tools/stamp.py --remove ; exit $$status

# how time and memory of the detectors grow; a few minutes
bench: $(VENV)/.dev
	$(BIN)/entente bench speed --only growth

# every benchmark; hours
benchmarks: $(VENV)/.dev
	$(BIN)/entente bench speed

# ---- supply chain (docs/supply-chain.md); the tools live in a folder of their own ----

lock: $(VENV)-supply/.done
	PATH="$(CURDIR)/$(SUPPLY):$$PATH" $(SUPPLY)/python tools/lock.py
	$(SUPPLY)/python tools/lock.py --torch

sbom: $(VENV)-supply/.done $(VENV)/.base
	$(SUPPLY)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o sbom.cdx.json $(BIN)/python

licences: $(VENV)-supply/.done $(VENV)/.dev
	printf '# Licences\n\nWhat `requirements.lock` and `requirements-torch.lock` install, as the packages declare it. Made by `make licences`.\n\n' > docs/licences.md
	$(SUPPLY)/pip-licenses --python $(BIN)/python --format=markdown --order=name \
	  --packages $$(sed -n 's/^\([A-Za-z0-9][A-Za-z0-9._-]*\)==.*/\1/p' $(LOCKS)) >> docs/licences.md

audit: $(VENV)-supply/.done
	$(SUPPLY)/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

bandit: $(VENV)-supply/.done
	$(SUPPLY)/bandit -q -c pyproject.toml -r src tools

$(VENV)-supply/.done: tools/requirements.txt
	test -x $(SUPPLY)/python || $(PYTHON) -m venv $(VENV)-supply
	$(SUPPLY)/pip --disable-pip-version-check install -q -r tools/requirements.txt
	touch $@

# torch goes first and by itself: a resolver left to choose takes a build with gigabytes of CUDA.
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	touch $@

$(VENV)/.base: $(VENV)/.torch pyproject.toml
	$(PIP) -e ".[console]"
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) -e ".[$(EXTRAS)]"
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) $(VENV)-supply demo build docs/_build docs/generated src/*.egg-info
