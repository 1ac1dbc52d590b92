# Every target makes its own virtual environment when it is missing or older than pyproject.toml.
#   make test ARGS='-k heat'                              choose tests
#   make test VENV=.venv-newest PYTHON=python3.13         another Python beside the first

PYTHON  ?= python3
VENV    ?= .venv
EXTRAS  ?= dev
WORKERS ?= 2
ARGS    ?=

BIN   := $(VENV)/bin
STAMP := $(VENV)/.stamp

.PHONY: demo test lint bench docs gallery orders clean

demo: $(STAMP)
	MPLBACKEND=Agg $(BIN)/python examples/demo.py

# Fresh memory is filled with rubbish (by glibc), so that what reads it before it is written fails here and not by chance.
test: $(STAMP)
	MALLOC_PERTURB_=153 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
	@echo "docs: open site/index.html"

gallery: $(STAMP)
	$(BIN)/python tools/gallery.py $(ARGS)

orders: $(STAMP)
	$(BIN)/python -m tests.orders

clean:
	rm -rf .venv .venv-newest out site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@

$(STAMP)-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@
