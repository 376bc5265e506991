# Every target starts from a bare clone: Python 3.11 and make are enough.
PYTHON ?= python3
BIN    := .venv/bin
export OMP_NUM_THREADS ?= 1
export MPLBACKEND      ?= agg
export PATH            := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test test-notebooks test-browser prepare run lab preview docs wheel clean
help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

.venv/.installed: settings.ini setup.py constraints.txt
	@echo "Setting up .venv (a few minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@git rev-parse --git-dir >/dev/null 2>&1 && HOME=$(CURDIR)/.venv nbdev_install_hooks >/dev/null || true
	@touch $@

demo: .venv/.installed ## train on the included Debian graph, print a table, write demo.png
	@dmns_demo

# memory that tensors leave is kept for the next ones, which saves processor time
test: export MALLOC_MMAP_THRESHOLD_ = 4294967296
test: export MALLOC_TRIM_THRESHOLD_ = 4294967296
test: export MALLOC_TOP_PAD_        = 67108864
test: .venv/.installed ## everything CI checks: lint, types, stale files, every cell, pytest
	@ruff check --quiet
	@mypy --no-error-summary & types=$$!; python tools/book.py check && wait $$types
	@DMNS_RESULTS= DMNS_DATA=.venv/none nbdev_test --n_workers 2 --do_print
	@pytest -n 2 --dist worksteal

test-notebooks: .venv/.installed ## run every notebook as a reader without datasets does: time, errors, warnings
	@python tools/runall.py $(NB)

test-browser: .venv/.installed ## three chapters in JupyterLab and a real browser (needs Chromium)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet 'playwright>=1.45'
	@env -u MPLBACKEND python tools/browser.py

prepare: .venv/.installed ## export the modules, tidy up the notebooks, make README.md
	@python tools/book.py prepare

run: .venv/.installed ## run NB=01_graphs and save its outputs (SLOW=1: compute saved results anew)
	@env -u MPLBACKEND python tools/book.py run $(NB) $(if $(SLOW),--slow)

lab: .venv/.installed ## open the book in JupyterLab
	@env -u MPLBACKEND jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.default_url=/lab/tree/nbs/index.ipynb

preview: .venv/.installed ## plain pages of the site without Quarto (TO=folder, SHOTS=folder for screenshots)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet pypandoc_binary 'playwright>=1.45'
	@python tools/preview.py $(TO) $(if $(SHOTS),--screenshots $(SHOTS))

docs: .venv/.installed ## render the site into _docs (needs Quarto)
	@command -v quarto >/dev/null || { echo "make docs needs Quarto, which is not installed here: see https://quarto.org"; exit 1; }
	@nbdev_docs && python tools/book.py readme

wheel: .venv/.installed ## build the wheel into dist
	@python -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir dist && rm -rf build *.egg-info && ls dist

clean: ## remove what was made, the environment too
	@rm -rf .venv _docs _proc build dist *.egg-info .mypy_cache .ruff_cache .hypothesis demo.png
