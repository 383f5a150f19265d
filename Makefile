# make reproduce   the paper's tables and figures beside the paper's numbers (ARGS= passes options on)
# make test        everything but the tests marked long, the mutants included
# make test-long   the long tests
# make debug       the kernel tests against a build with all checks on
# make mutants     the tests that must catch known errors, put back on purpose
# make regress     samplers against the stored record of what they did: which rows moved, and by how much (ARGS=)
# make golden      store that record anew, after a change that is meant to move it
# make build, make lint, make clean
#
# All of it runs in .venv, made here. PYTHON= chooses the interpreter, PYTEST_ARGS= passes options to pytest.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= 2
ARGS ?=
PYTEST_ARGS ?=

DEPS := $(VENV)/.deps
KERNELS := setup.py $(shell find bart -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h')
PYTHON_FILES := $(shell find bart -name '*.py')
BUILT := build/.built
DEBUG_LIB := $(CURDIR)/build/debug/lib
MUTANT_LIB := $(CURDIR)/build/mutants/lib

.PHONY: all build test test-long debug mutants reproduce regress golden lint clean check
all: build

# One line that names what is missing.
check:
	@command -v $(PYTHON) >/dev/null || { echo "Missing: python3 python3-venv python3-dev gcc" \
	  "(Debian: apt-get install python3 python3-venv python3-dev gcc)" >&2; exit 1; }
	@$(PYTHON) .ci/prerequisites.py

$(DEPS): pyproject.toml .ci/requirements.py | check
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PY) .ci/requirements.py test lint > $(VENV)/requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	@touch $@

build: $(BUILT)
$(BUILT): $(KERNELS) $(DEPS)
	BART_BUILD_C=build/c $(PY) setup.py --quiet build_ext --inplace -j $(JOBS)
	@touch $@

# The two other builds are whole copies of the package: they never touch the one in place.
build/debug/.built: $(KERNELS) $(PYTHON_FILES) $(DEPS)
	BART_DEBUG=1 BART_BUILD_C=build/debug/c \
	  $(PY) setup.py --quiet build -j $(JOBS) --build-base build/debug --build-lib "$(DEBUG_LIB)"
	@touch $@

build/mutants/.built: $(KERNELS) $(PYTHON_FILES) $(DEPS)
	BART_MUTANTS=1 BART_BUILD_C=build/mutants/c \
	  $(PY) setup.py --quiet build -j $(JOBS) --build-base build/mutants --build-lib "$(MUTANT_LIB)"
	@touch $@

test: $(BUILT) build/mutants/.built
	BART_MUTANT_BUILD="$(MUTANT_LIB)" $(PY) -m pytest -n 2 -m "not long" $(PYTEST_ARGS)

test-long: $(BUILT) build/mutants/.built
	BART_MUTANT_BUILD="$(MUTANT_LIB)" $(PY) -m pytest -n 2 -m long $(PYTEST_ARGS)

mutants: $(BUILT) build/mutants/.built
	BART_MUTANT_BUILD="$(MUTANT_LIB)" $(PY) -m pytest -n 2 tests/test_mutants.py $(PYTEST_ARGS)

# Not `python -m pytest`: that would put the source tree before the debug build.
debug: build/debug/.built
	BART_TEST_LIB="$(DEBUG_LIB)" PYTHONPATH="$(DEBUG_LIB)" \
	  $(VENV)/bin/pytest -n 2 -m "kernel and not long" $(PYTEST_ARGS)

reproduce: $(BUILT)
	$(PY) -m experiments.run_all --quick $(ARGS)

regress: $(BUILT)
	$(PY) -m tests.golden.regress $(ARGS)

golden: $(BUILT)
	$(PY) -m tests.golden.regress --write

lint: $(DEPS)
	$(PY) -m ruff check .

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
	find bart -name '*.so' -delete
	find bart tests experiments -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	rm -rf $(VENV)
