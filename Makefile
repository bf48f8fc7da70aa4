# One menu for people and CI: `make help`. PYTHON=/path/to/python3.11 chooses the interpreter that .venv is made with.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Errors are shown, chatter is not.
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
DEMO   := fixtures/nccl_rank_not_joined/evidence

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check golden docs bench record fixtures plugins lint types lint-imports docs-check headers skills-check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## diagnose a recorded hang (no GPU, no torch)
	@echo '$$ whichrank diagnose $(DEMO)'
	@$(BIN)/whichrank diagnose $(DEMO); code=$$?; \
	if [ $$code -ne 1 ]; then echo "make demo: expected exit code 1 (findings), got $$code" >&2; exit 1; fi

test: $(VENV)/.test ## every test, slow ones too
	$(PYTEST) -n 3 --dist loadgroup --timeout 600  # one more than cores: many of them wait for other processes

check: lint types lint-imports docs-check headers skills-check ## style, types, imports, docs, SQL headers, SKILL.md

golden: $(VENV)/.test ## rewrite the expected outputs; then read the diff
	$(PYTEST) --update-golden

docs: $(VENV)/.dev ## write the generated pages and README blocks
	$(BIN)/python -m tools.docs

bench: $(VENV)/.test ## time what must stay fast
	$(BIN)/python -m benchmarks

record: $(VENV)/.test ## record evidence from real jobs again
	$(BIN)/python -m tests.jobs.record
	$(BIN)/python -m tests.jobs.record_stacks

fixtures: $(VENV)/.test ## write the built fixtures again
	$(BIN)/python -m tests.jobs.fixtures
	$(BIN)/python -m tests.jobs.nccl_fixtures
	$(BIN)/python -m tests.jobs.log_fixtures

plugins: $(VENV)/.dev ## try the plugin manifests in the real clients (npm; Claude Code and Codex, no login)
	@PATH="$(abspath $(BIN)):$$PATH" bash tools/plugins.sh

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The parts of `make check`, to run one alone.

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev
	$(BIN)/mypy

lint-imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo

docs-check: $(VENV)/.dev
	@if [ -e tools/docs.py ] || [ -e tools/docs/__main__.py ]; then echo '$(BIN)/python -m tools.docs --check'; \
	$(BIN)/python -m tools.docs --check; else echo 'docs-check: there is no tools/docs yet'; fi

headers: $(VENV)/.dev
	$(PYTEST) -q -m headers

skills-check: $(VENV)/.dev
	@for folder in skill/*/; do $(BIN)/agentskills validate "$$folder" || exit 1; done

# What is installed where: a stamp file per set, made again when pyproject.toml changes.

$(VENV)/bin/python:
	@command -v '$(PYTHON)' >/dev/null || { echo 'whichrank needs Python 3.11 or newer; there is no $(PYTHON).' \
	'Set PYTHON=/path/to/python3.11' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("whichrank needs Python 3.11 or newer;\
	 found %d.%d.%d. Set PYTHON=/path/to/python3.11" % v[:3])'
	@'$(PYTHON)' -m venv $(VENV) || { rm -f $(VENV)/bin/python; exit 1; }

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing whichrank into $(VENV) (once)'
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing whichrank and the tools of make check into $(VENV) (once)'
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing whichrank and what its tests need into $(VENV) (once; torch for the recorded jobs)'
	@$(PIP) -e '.[test]'
	@touch $@
