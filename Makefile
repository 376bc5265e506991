# Every target starts from a bare clone: Python 3.11 and make are enough.
PYTHON ?= python3
BIN    := .venv/bin
export OMP_NUM_THREADS ?= 1
export MPLBACKEND      ?= agg
export PATH            := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test test-slow prepare run lab docs wheel clean
help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

.venv/.installed: settings.ini setup.py constraints.txt
	@echo "Setting up .venv (a few minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.installed ## train on the embedded Debian graph, print a table, write demo.png
	@dmns_demo

test: .venv/.installed ## everything CI checks: lint, types, stale files, every cell, pytest
	@ruff check --quiet
	@mypy --no-error-summary
	@python tools/book.py check
	@nbdev_test --n_workers 2 --do_print
	@pytest -n 2 --dist worksteal

test-slow: .venv/.installed ## also the cells marked slow (they need the four datasets: see DMNS_DATA)
	@nbdev_test --flags slow --n_workers 2 --do_print

prepare: .venv/.installed ## export the modules, clean the notebooks, make README.md
	@nbdev_export
	@nbdev_clean
	@python tools/book.py readme

run: .venv/.installed ## run NB=01_graphs and save its outputs (SLOW=1 runs the slow cells too)
	@env -u MPLBACKEND python tools/book.py run $(NB) $(if $(SLOW),--slow)

lab: .venv/.installed ## open the book in JupyterLab
	@MPLBACKEND= jupyter lab nbs

docs: .venv/.installed ## render the site into _docs (needs Quarto)
	@command -v quarto >/dev/null || { echo "make docs needs Quarto, which is not installed here: see https://quarto.org"; exit 1; }
	@nbdev_docs && python tools/book.py readme

wheel: .venv/.installed ## build the wheel into dist
	@python -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir dist && rm -rf build *.egg-info && ls dist

clean: ## remove what was made, the environment too
	@rm -rf .venv _docs _proc build dist *.egg-info .mypy_cache .ruff_cache .hypothesis demo.png
