# Two commands do everything on a fresh machine: make demo, make test. The rest is for those who change the code.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test build python bench format lint test-gpu test-torch clean

# One compiler of torch's headers needs about 2 GB.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ { fit = int($$2 / 2000000); print fit < 1 ? 1 : fit < cores ? fit : cores }' /proc/meminfo)
# A test of a GPU takes up to 6 GB of it.
GPU_JOBS ?= $(shell { nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null || true; } | awk -v cores=$$(nproc) \
  'NR == 1 { fit = int($$1 / 6000); print fit < 1 ? 1 : fit < cores ? fit : cores } END { if (NR == 0) print 1 }')
FUZZ_SECONDS ?= 5

STAGE := tools/stage
# What tools/bootstrap found, for CMake. TRIACCEL_CUDA, TRIACCEL_CUDA_ARCHS and TRIACCEL_UNITY are taken from the command line.
CONFIGURE := cmake -DTRIACCEL_UNITY=$(or $(TRIACCEL_UNITY),ON)
PROGRAM := $(CONFIGURE) --preset release -DTRIACCEL_WITH_TORCH=ON -DTRIACCEL_PYTHON="$$TRIACCEL_PYTHON" \
  -DTRIACCEL_TORCH_DIR="$$TRIACCEL_TORCH_DIR" -DTRIACCEL_NVCC="$$TRIACCEL_NVCC" \
  -DTRIACCEL_CUDA="$${TRIACCEL_CUDA:-AUTO}" -DTRIACCEL_CUDA_ARCHS="$(TRIACCEL_CUDA_ARCHS)"
RELEASE := $(PROGRAM) -DBUILD_TESTING=ON -DTRIACCEL_TORCH_FREE_TESTS=OFF
PACKAGED := $(RELEASE) -DTRIACCEL_PYTHON_PACKAGE=ON -DPython_EXECUTABLE="$$TRIACCEL_PACKAGE_PYTHON"
# Into .venv, out of build/release: pip finds everything compiled.
INSTALL_PACKAGE := env CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) "$$TRIACCEL_PACKAGE_PYTHON" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps . \
  -C build-dir=build/release -C cmake.define.BUILD_TESTING=ON -C cmake.define.TRIACCEL_CUDA="$${TRIACCEL_CUDA:-AUTO}" \
  -C cmake.define.TRIACCEL_CUDA_ARCHS="$(TRIACCEL_CUDA_ARCHS)"
TORCH_FREE := base core formats policies telemetry checkpoint int8 int8_run
ENVIRONMENT := . build/environment.sh
CTEST := ctest --output-on-failure -j $(JOBS)

help:  ## this list
	@echo "Tri-Accel: train a PyTorch model in the memory you have."; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo; echo "  JOBS=N  TRIACCEL_TORCH=/path/of/torch  TRIACCEL_CUDA=OFF  TRIACCEL_CUDA_ARCHS=all"

# The first build of the demo compiles what needs no torch while torch is being downloaded. It shares build/release with the
# other targets, which add the tests and, on a machine without a GPU, the CUDA code.
demo:  ## set the machine up, train on Fashion-MNIST within a memory budget, show the comparison
	@$(STAGE) "packages" tools/bootstrap demo packages
	@trap wait EXIT; $(STAGE) "set-up" tools/bootstrap demo & set_up=$$!; \
	  if [ ! -e build/release/CMakeCache.txt ]; then \
	    $(STAGE) --quiet build/configure.log "configure" $(CONFIGURE) --preset release -DTRIACCEL_WITH_TORCH=OFF -DBUILD_TESTING=OFF; \
	    $(STAGE) "build what needs no torch" cmake --build --preset release -j $(JOBS) --target $(TORCH_FREE:%=triaccel_%); \
	  fi; wait $$set_up
	@$(ENVIRONMENT); $(STAGE) --quiet build/configure.log "configure" $(PROGRAM)
	@$(STAGE) "build" cmake --build --preset release -j $(JOBS) --target triaccel_cli
	@build/release/triaccel demo

# What is built with sanitizers needs no torch: it does not wait for the download.
test:  ## set the machine up, build, run the whole suite, the sanitizers and the fuzz targets
	@$(STAGE) --start "packages" tools/bootstrap test packages
	@trap wait EXIT; $(STAGE) "set-up" tools/bootstrap test & set_up=$$!; \
	  $(STAGE) --quiet build/configure-sanitize.log "configure with sanitizers" $(CONFIGURE) --preset sanitize; \
	  $(STAGE) "build with sanitizers" cmake --build --preset sanitize -j $(JOBS); wait $$set_up
	@$(ENVIRONMENT); $(STAGE) --quiet build/configure.log "configure" $(PACKAGED)
	@$(STAGE) "build" cmake --build --preset release -j $(JOBS)
	@$(ENVIRONMENT); $(STAGE) --quiet build/package.log "Python package" $(INSTALL_PACKAGE)
	@$(ENVIRONMENT); $(STAGE) --keep build/ctest-sanitize.txt "suite with sanitizers" $(CTEST) --test-dir build/sanitize
	@$(ENVIRONMENT); $(STAGE) --keep build/ctest-release.txt "suite" $(CTEST) --test-dir build/release
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(STAGE) "fuzz targets, $(FUZZ_SECONDS) s each" fuzz/run
	@$(STAGE) --end "make test"

build:  ## set the machine up and build everything into build/release
	@$(STAGE) "set-up" tools/bootstrap build
	@$(ENVIRONMENT); $(STAGE) --quiet build/configure.log "configure" $(RELEASE)
	@$(STAGE) "build" cmake --build --preset release -j $(JOBS)

python:  ## build the Python package and install it into .venv
	@$(STAGE) "set-up" tools/bootstrap python
	@$(ENVIRONMENT); $(STAGE) --quiet build/configure.log "configure" $(PACKAGED)
	@$(STAGE) "build" cmake --build --preset release -j $(JOBS) --target triaccel_python
	@$(ENVIRONMENT); $(STAGE) --quiet build/package.log "Python package" $(INSTALL_PACKAGE)

bench:  ## measure one training step against PyTorch on this machine
	@$(STAGE) "set-up" tools/bootstrap bench
	@$(ENVIRONMENT); $(STAGE) --quiet build/configure.log "configure" $(RELEASE)
	@$(STAGE) "build" cmake --build --preset release -j $(JOBS)
	@$(ENVIRONMENT); "$$TRIACCEL_PYTHON" -c 'import torch' 2>/dev/null || export PYTHONPATH="$${TRIACCEL_TORCH_DIR%/torch}"; \
	  "$$TRIACCEL_PYTHON" tools/bench

test-gpu: build  ## run the tests that need a GPU
	@$(ENVIRONMENT); $(STAGE) "GPU suite" ctest --test-dir build/release --output-on-failure -L gpu -j $(GPU_JOBS)

test-torch:  ## run the tests of the Python package against another torch: TORCH=2.15.0
	@$(STAGE) "set-up" tools/bootstrap python
	@$(ENVIRONMENT); CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(STAGE) "torch $(TORCH)" tools/test_torch $(TORCH)

format:  ## let clang-format rewrite our sources
	@tools/bootstrap lint
	@tools/format

lint:  ## check formatting, layers, file sizes, links, language and measured figures
	@tools/bootstrap lint
	@tools/lint

clean:  ## remove what was built; .venv stays
	rm -rf build
