# The commands of this repository. Each makes what it needs: virtual environments in .venv*, from PyPI, once.
#
#   make demo     the example notebooks, run headless; prints what they came to
#   make test     linters, types, layers, the test suite and the notebooks; on further Pythons what depends on them.
#                 Two parts at a time, each of which is printed as it ends; JOBS=1: one after the other
#   make ui       the tests in a real JupyterLab, in a headless Chromium; leaves screenshots in tests/ui/pictures
#   make pictures the same, and then the screenshots that the documentation shows are taken over from there
#   make lab      JupyterLab on the notebooks
#   make bench    the benchmarks, written to docs/benchmarks.md and README.md; PEERS=all: beside Fiber, Ray, Dask and ipyparallel
#   make clean    removes everything that the others made

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

SUPPORTED := 3.11 3.12 3.13
FOUND := $(foreach version,$(SUPPORTED),$(if $(shell .ci/find-python $(version)),$(version)))
MAIN := $(firstword $(FOUND))
OTHERS := $(filter-out $(MAIN),$(FOUND))
PYTHON ?= $(if $(MAIN),$(shell .ci/find-python $(MAIN)))
FIBER_PYTHON := $(if $(filter all,$(PEERS)),$(shell .ci/find-python 3.7))
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

NOTEBOOKS := $(sort $(wildcard notebooks/[0-9]*.ipynb))
PICTURES := live-view.png live-view-256.png live-view-replaced.png cell-done.png cancelled.png theme-dark.png figures.png \
	debug.png timeline.png status.png attached.png
# What the further Pythons run: what touches interpreters, pickles, processes and kernels. The rest is pure or runs these anyway.
VERSION_DEPENDENT := tests/serialize tests/engine tests/multiprocessing tests/notebook/test_kernel.py \
	tests/notebook/test_debugging.py tests/notebook/test_supply.py tests/notebook/test_tracebacks.py
GROUPS := notebook integration multiprocessing engine ray # those in tests/ that take longest; `suite-rest` is all others
SUITES := $(GROUPS:%=suite-%) suite-rest
PARTS := lint core-coverage $(SUITES) $(OTHERS:%=suite-%) ui cpython notebooks # long ones first: the last ones end alike
JOBS := 2 # at a time: one waits while the other computes
KERNELS := 7.3 6.31 # of ipykernel, beside the newest: tried by tests/notebook/test_kernel_versions.py
KERNEL_VENVS := $(KERNELS:%=.venv-ipykernel-%)
PYTEST_NOTEBOOKS := -m pytest -p no:cacheprovider --nbval --nbval-current-env \
	--nbval-sanitize-with notebooks/sanitize.cfg --nbval-cell-timeout 120 --timeout 300

.PHONY: demo test lint core-coverage suite kernels cpython ui pictures notebooks others lab bench clean
.PHONY: $(SUITES) $(OTHERS:%=suite-%)

# ---- what people run ------------------------------------------------------------------------------------------

demo: .venv/.has-notebooks
	FIBERNB_PROGRESS=0 .venv/bin/python notebooks/demo.py $(NOTEBOOKS)

test:
	$(MAKE) -j$(JOBS) --output-sync=target --no-print-directory $(PARTS)
	@echo "make test: all passed on Python $(FOUND)"

pictures: ui
	cp $(PICTURES:%=tests/ui/pictures/%) docs/images/

lab: .venv/.has-lab
	.venv/bin/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --notebook-dir=notebooks

ifeq ($(PEERS),all)
bench: .venv-peers/.has-peers $(if $(FIBER_PYTHON),.venv-fiber/.has-fiber)
	.venv-peers/bin/python -m benchmarks --peers --write docs/benchmarks.md --readme README.md
else
bench: .venv/.has-notebooks
	.venv/bin/python -m benchmarks --write docs/benchmarks.md --readme README.md
endif

clean:
	rm -rf .venv .venv-* build dist *.egg-info .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- the parts of `make test` ---------------------------------------------------------------------------------

lint: .venv/.has-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

core-coverage: .venv/.has-test # runs tests/core
	.venv/bin/python -m tests.core.own_coverage

suite: core-coverage $(SUITES)

suite-notebook: kernels

$(GROUPS:%=suite-%): suite-%: .venv/.has-test
	OLDER_KERNELS="$(KERNEL_VENVS)" .venv/bin/python -m pytest tests/$*

suite-rest: .venv/.has-test
	.venv/bin/python -m pytest tests $(patsubst %,--ignore=tests/%,core ui $(GROUPS))

kernels: $(KERNEL_VENVS:%=%/.has-kernel)

cpython: .venv/.has-test # Python's own tests of multiprocessing and of executors, about ours
	.venv/bin/python -m tests.cpython

ui: .venv/.has-test
	.venv/bin/python -m pytest tests/ui

notebooks: .venv/.has-test
	FIBERNB_PROGRESS=0 .venv/bin/python $(PYTEST_NOTEBOOKS) $(NOTEBOOKS)

others: $(OTHERS:%=suite-%)

$(OTHERS:%=suite-%): suite-%: .venv-%/.has-test
	OLDER_KERNELS= .venv-$*/bin/python -m pytest $(VERSION_DEPENDENT)
	.venv-$*/bin/python -m tests.cpython
	FIBERNB_PROGRESS=0 .venv-$*/bin/python $(PYTEST_NOTEBOOKS) $(firstword $(NOTEBOOKS))

# ---- environments: a stamp says that what pyproject.toml asks for has been installed --------------------------

.venv/bin/python:
	@$(if $(PYTHON),true,echo "no Python of $(SUPPORTED) found: install one, or name one by PYTHON=..." >&2; exit 1)
	.ci/make-venv $(PYTHON) .venv

.venv/.has-notebooks: pyproject.toml package.json | .venv/bin/python
	.venv/bin/python $(PIP_INSTALL) -e '.[notebooks]'
	touch $@

.venv/.has-test: pyproject.toml package.json | .venv/bin/python
	.venv/bin/python $(PIP_INSTALL) -e '.[notebooks,test]'
	touch $@ .venv/.has-notebooks

.venv/.has-lab: pyproject.toml package.json | .venv/bin/python
	.venv/bin/python $(PIP_INSTALL) -e '.[notebooks,lab]'
	touch $@ .venv/.has-notebooks

.venv-ipykernel-%/.has-kernel: pyproject.toml package.json
	test -x .venv-ipykernel-$*/bin/python || .ci/make-venv $(PYTHON) .venv-ipykernel-$*
	.venv-ipykernel-$*/bin/python $(PIP_INSTALL) -e . 'ipykernel==$*.*'
	touch $@
.PRECIOUS: .venv-ipykernel-%/.has-kernel

.venv-peers/.has-peers: pyproject.toml package.json
	test -x .venv-peers/bin/python || .ci/make-venv $(PYTHON) .venv-peers
	.venv-peers/bin/python $(PIP_INSTALL) -e '.[notebooks]' ray distributed ipyparallel
	touch $@

.venv-fiber/.has-fiber: # the last release of Fiber, and the last Python that it works on
	test -x .venv-fiber/bin/python || .ci/make-venv $(FIBER_PYTHON) .venv-fiber
	.venv-fiber/bin/python $(PIP_INSTALL) fiber==0.2.1
	touch $@

.venv-%/.has-test: pyproject.toml package.json
	test -x .venv-$*/bin/python || .ci/make-venv "$$(.ci/find-python $*)" .venv-$*
	.venv-$*/bin/python $(PIP_INSTALL) -e '.[notebooks,test]'
	touch $@
.PRECIOUS: .venv-%/.has-test
