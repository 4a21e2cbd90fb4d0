# Builds, tests and shows toolrelay. It needs cargo, a C compiler and Python; all else goes into .venv/ and build/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# ---- what the machine has ----

RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
CARGO := $(shell command -v cargo)
RUST_FITS := $(shell printf '%s\n' $(RUST) "$$(rustc --version 2>/dev/null | cut -d ' ' -f 2)" | sort -VC && echo yes)
COMPILER := $(shell command -v cc)
PYTHON := $(shell for candidate in $(PYTHON) python3 python3.{14,13,12,11}; do \
	"$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v "$$candidate" && break; done)

# One clear line, and nothing has happened yet.
.PHONY: machine
machine:
	$(if $(CARGO),,$(error toolrelay is built with cargo, which is not on this machine: install Rust $(RUST) or newer))
	$(if $(RUST_FITS),,$(error toolrelay needs Rust $(RUST) or newer, and this machine has $(shell rustc --version 2>&1)))
	$(if $(COMPILER),,$(error toolrelay needs a C compiler named cc: install gcc or clang))
	$(if $(PYTHON),,$(error toolrelay needs Python 3.11 or newer with its venv module (python3-venv on Debian)))

NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)
CLIPPY := $(shell cargo clippy --version >/dev/null 2>&1 && echo yes)
RUSTFMT := $(shell cargo fmt --version >/dev/null 2>&1 && echo yes)

# ---- environments and artefacts ----

TOOLS := .venv/tools
TEST := .venv/test
DEMO := .venv/demo
BENCH := .venv/bench
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE $(shell find rust python stubs -type f \
	-not -name '*.so' -not -name '*.pyc')
# The interpreter that a check of the bindings asks about itself: the python3 on the path may be too old.
export PYO3_PYTHON := $(CURDIR)/$(TOOLS)/bin/python

STARTED := $(shell date +%s)
stage = @printf '\n== %s (after %d s)\n' '$(strip $(1))' "$$(($$(date +%s) - $(STARTED)))"
# $(call install, environment): installs into an empty virtual environment. Its pip is that of the tools: it is new enough.
define install
	$(TOOLS)/bin/python -m venv --clear --without-pip $(strip $(1))
	$(TOOLS)/bin/python -m pip --python $(strip $(1))/bin/python install --quiet
endef

$(TOOLS)/.done: pyproject.toml | machine
	$(call stage, tools)
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TOOLS)/bin/python -m pip install --quiet --group tools
	touch $@

# The wheel that tests and demo install, with the wheels it depends on: quick to build, checks of debug builds on.
build/wheelhouse/.done: $(SOURCES) $(TOOLS)/.done
	$(call stage, wheel)
	rm -rf build/wheelhouse
	$(TOOLS)/bin/maturin build --interpreter $(PYO3_PYTHON) --out build/wheelhouse
	$(TOOLS)/bin/python -m pip wheel --quiet --wheel-dir build/wheelhouse build/wheelhouse/toolrelay-*.whl
	touch $@

build/sdist/.done: $(SOURCES) $(TOOLS)/.done
	rm -rf build/sdist
	$(TOOLS)/bin/maturin sdist --out build/sdist
	touch $@

$(DEMO)/.done: build/wheelhouse/.done
	$(call install, $(DEMO)) "$$(echo build/wheelhouse/toolrelay-*.whl)[demo]"
	touch $@

.PHONY: environment
environment: build/wheelhouse/.done build/sdist/.done
	$(call stage, environment)
	$(call install, $(TEST)) "$$(echo build/wheelhouse/toolrelay-*.whl)[demo]" --group test

# ---- commands ----

.PHONY: help
help:
	@echo 'make demo   a conversation that halts in one process and finishes in another (ARGS="--base-url ..." for a real model)'
	@echo 'make test   Rust and Python tests, type checks and lint'
	@echo 'make bench  the benchmarks of docs/benchmarks.md'
	@echo 'make soak   100,000 halts and resumes: nothing lost, no growth of memory (ARGS="1000 --store postgres")'
	@echo 'make lint   formatting and lint of both languages'
	@echo 'make fmt    format both languages'
	@echo 'make wheel  the wheel and sdist to publish, into dist/'

.PHONY: demo
demo: $(DEMO)/.done
	@$(DEMO)/bin/python examples/demo.py $(ARGS)

.PHONY: test
test: test-rust lint environment types test-python

.PHONY: test-rust
test-rust: $(TOOLS)/.done
	$(call stage, Rust tests)
	cargo $(if $(NEXTEST),nextest run,test --all-targets) --locked
	cargo test --doc --locked

.PHONY: lint
lint: $(TOOLS)/.done
	$(call stage, lint)
	$(if $(RUSTFMT),cargo fmt --all --check,@echo 'rustfmt is not installed: Rust formatting is not checked')
	cargo check --package toolrelay-core --locked
	$(if $(CLIPPY),cargo clippy --workspace --all-targets --locked -- -D warnings,@echo 'clippy is not installed: only compiling'; \
		cargo check --workspace --all-targets --locked)
	$(TOOLS)/bin/ruff check
	$(TOOLS)/bin/ruff format --check

.PHONY: types
types: environment
	$(call stage, types)
	$(TEST)/bin/mypy python
	$(TEST)/bin/mypy tests/typing examples
	$(TEST)/bin/python -m mypy.stubtest toolrelay._core
	$(TOOLS)/bin/basedpyright --pythonpath $(TEST)/bin/python
	PATH="$(CURDIR)/$(TEST)/bin:$$PATH" $(TOOLS)/bin/basedpyright --verifytypes toolrelay --ignoreexternal

.PHONY: test-python
test-python: environment
	$(call stage, Python tests)
	$(TEST)/bin/pytest

.PHONY: release
release: $(TOOLS)/.done
	rm -rf build/release
	$(TOOLS)/bin/maturin build --release --interpreter $(PYO3_PYTHON) --out build/release
	$(call install, $(BENCH)) build/release/toolrelay-*.whl \
		-r bench/requirements.txt $(if $(findstring --rivals,$(ARGS)),-r bench/requirements-rivals.txt)

.PHONY: bench
bench: release
	$(BENCH)/bin/python bench/run.py $(ARGS)
	cargo bench --quiet --package toolrelay-core --bench wires

.PHONY: soak
soak: release
	$(BENCH)/bin/python bench/soak.py $(ARGS)

.PHONY: fmt
fmt: $(TOOLS)/.done
	cargo fmt --all
	$(TOOLS)/bin/ruff check --fix-only
	$(TOOLS)/bin/ruff format

.PHONY: wheel
wheel: environment
	$(call stage, release wheel)
	$(TOOLS)/bin/python -m pip install --quiet --group cross
	rm -rf dist
	PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" maturin build --release --zig --compatibility manylinux_2_17 \
		--compression-level 9 --interpreter $(PYO3_PYTHON) --out dist
	$(TOOLS)/bin/maturin sdist --out dist
	$(TOOLS)/bin/python -m pip wheel --quiet --wheel-dir build/wheelhouse --group build
	PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" $(TEST)/bin/pytest -m release
	@ls -l dist
