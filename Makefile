# One word per task; each makes the environment that it needs in .venv (see scripts/environment).
SHELL = /bin/sh
PYTHON ?= python3.11
python = .venv/bin/python
pytest = $(python) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
export PYTHON
# The last: hundreds of processes are started, and each would compile the package anew.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: help demo test soak bench lint format clean runtime dev

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: runtime ## train pipeline.toml with two processes and show the run
	$(python) -m torch.distributed.run --standalone --nproc-per-node 2 -m pipeline run pipeline.toml
	$(python) -m pipeline runs
	@echo
	@echo "The config:  pipeline.toml"
	@echo "The runs:    runs/ (a folder each: config.toml, run.json, metrics.jsonl, checkpoints/, logs/)"
	@echo "To go on:    .venv/bin/pipeline --help"

test: dev ## the tests
	$(pytest)

soak: dev ## the tests with their full counts, no skips; writes docs/soak.md
	$(pytest) --soak

bench: ## the engine against hand-written loops and other frameworks (an hour and more)
	@scripts/environment bench
	$(python) -m benchmarks

lint: dev ## ruff, mypy --strict, and the arrows between the parts
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(python) -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))'

format: dev ## let ruff rewrite what it can
	$(python) -m ruff check --fix-only .
	$(python) -m ruff format .

clean: ## everything that was made, but for the runs
	rm -rf .venv build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

runtime:
	@scripts/environment runtime

dev:
	@scripts/environment dev
