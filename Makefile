# thinwire: `make demo` and `make test` are all a newcomer needs. Everything else is for developers.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
SOURCES = $(wildcard $(shell git ls-files '*.cpp' '*.h'))

.PHONY: help deps build demo test python python-test defaults bench gate results tables format format-check tidy \
        clang asan tsan fuzz faults valgrind coverage nightly clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

deps:  ## install the packages that are missing (apt)
	@tools/deps

# `make demo` configures build/ without tests; then it is configured again, with them.
build: deps  ## build/thinwire, the library, tests and benchmarks
	@if [ ! -f build/build.ninja ] || grep -q '^THINWIRE_TESTS:[A-Z]*=OFF' build/CMakeCache.txt; then \
	  cmake --preset release; fi
	@cmake --build build -j $(JOBS)

demo:  ## build the program only; train a network on 4 workers over a slow network, dense and with topk
	@tools/deps demo
	@[ -f build/build.ninja ] || cmake --preset demo
	@cmake --build build -j $(JOBS) --target thinwire_main
	@tools/demo

test: build  ## install, build, run all tests
	@cd build && ctest --output-on-failure -j $(JOBS)

# In build/ if it is configured; otherwise in a directory that needs no packages of tests and trainer.
PREFIX ?= /usr/local
PYTHON_BUILD = $(if $(wildcard build/build.ninja),build,build-python)
python:  ## install the Python package for the system's python3, without pip (PREFIX=/usr/local, DESTDIR)
	@tools/deps python
	@[ -f $(PYTHON_BUILD)/build.ninja ] || \
	  cmake -G Ninja -B $(PYTHON_BUILD) $(addprefix -DTHINWIRE_,DEV=OFF MPI=OFF SIM=OFF TORCH=OFF)
	@cmake --build $(PYTHON_BUILD) -j $(JOBS) --target thinwire_c
	@cmake --install $(PYTHON_BUILD) --prefix "$(PREFIX)" --component python

python-test: build  ## test the Python package with another torch, from pip in build/venv-torch-VERSION (TORCH=2.13.0)
	@python/tests/run --torch$(if $(TORCH),=$(TORCH))

defaults: build  ## train every strategy with no keys on all cases of law 9, next to dense: hours
	@build/trainer/trainer_tests --gtest_filter='AtLength/*'

bench: build  ## the measurements behind docs/results
	@bench/run

TOLERANCE ?= 25
gate: build  ## compare quick measurements with recorded ratios; fail if one is worse (TOLERANCE=25 percent)
	@bench/gate --tolerance $(TOLERANCE)

MNIST ?= data/mnist
CIFAR10 ?= data/cifar10
results: build  ## add the lines that bench/results lacks, fill docs/results: hours, root (MNIST= CIFAR10=DIR TEXT=FILE)
	@tools/get-data mnist "$(MNIST)" && tools/get-data cifar10 "$(CIFAR10)"
	@bench/run --missing
	@bench/training/scaling.sh
	@bench/training/convergence.sh "$(MNIST)" "$(CIFAR10)"
	@bench/training/asynchronous.sh "$(MNIST)" "$(CIFAR10)"
	@bench/training/server.sh "$(MNIST)"
	@bench/training/overview.sh "$(MNIST)"
	@bench/training/pytorch.sh "$(MNIST)" "$(CIFAR10)"
	@[ -z "$(TEXT)" ] || bench/training/defaults.sh "$(MNIST)" "$(CIFAR10)" "$(TEXT)"
	@[ -e bench/results/faults.jsonl ] || $(MAKE) faults
	@bench/tables.py

tables:  ## fill docs/results and README from bench/results: seconds
	@bench/tables.py

format:  ## rewrite the sources in our style
	@tools/deps format && printf '%s\n' $(SOURCES) | xargs -P $(JOBS) -n 32 clang-format-14 -i

format-check:  ## fail if `make format` would change a source: seconds
	@tools/deps format && printf '%s\n' $(SOURCES) | xargs -P $(JOBS) -n 32 clang-format-14 --dry-run --Werror

tidy: build  ## clang-tidy on all sources; findings are errors
	@tools/deps dev && JOBS=$(JOBS) tools/tidy

clang:  ## build the library, the C API and the program with clang; warnings are errors
	@tools/deps dev && cmake --preset clang && cmake --build build-clang -j $(JOBS) --target thinwire_main thinwire_c

CASES ?= 100
KIND ?= engine
# Readers of foreign bytes are the engine's: their corpora run with its tests.
CORPORA = $(filter engine,$(KIND))
asan:  ## engine tests, corpora under address and undefined-behaviour sanitizers (CASES=100 of a law; KIND=command)
	@tools/deps && cmake --preset asan
	@cmake --build build-asan -j $(JOBS) --target $(KIND)_tests $(if $(CORPORA),corpus_test)
	@cd build-asan && RC_PARAMS=max_success=$(CASES) \
	  ctest --output-on-failure -j $(JOBS) -L '^($(KIND)$(if $(CORPORA),|fuzz))$$'

tsan:  ## engine tests under the thread sanitizer, without foreign engines (CASES=100 of each law)
	@tools/deps && cmake --preset tsan && cmake --build build-tsan -j $(JOBS) --target engine_tests
	@cd build-tsan && RC_PARAMS=max_success=$(CASES) ctest --output-on-failure -j $(JOBS) -L engine

FUZZ_SECONDS ?= 60
fuzz:  ## every reader of foreign bytes under libFuzzer (FUZZ_SECONDS=60 for each)
	@tools/deps fuzz && cmake --preset fuzz && cmake --build build-fuzz -j $(JOBS) --target fuzzers
	@tools/fuzz $(FUZZ_SECONDS)

FAULTS ?= 200
SEED ?= 1
faults: build  ## FAULTS=200 random faults in real runs, from SEED=1; many minutes
	@build/tests/faults --count $(FAULTS) --seed $(SEED) --jobs $(JOBS) --json bench/results/faults.jsonl
	@build/tests/faults --table bench/results/faults.jsonl

valgrind: build  ## every strategy takes some steps under memcheck, and a short train
	@tools/deps dev && tools/memcheck build/tests/law_worker build/thinwire

coverage:  ## which lines the tests of engine and command line run, by folder; build-coverage/coverage.html
	@tools/deps coverage && cmake --preset coverage
	@cmake --build build-coverage -j $(JOBS) --target engine_tests command_tests
	@JOBS=$(JOBS) tools/coverage

nightly: format-check test clang tidy asan tsan valgrind fuzz faults coverage gate  ## checks too long for every change
	@$(MAKE) asan KIND=command
	@THINWIRE_LEAK_STEPS=10000 python/tests/run -k leak

clean:  ## remove everything that was built
	@rm -rf build build-asan build-tsan build-fuzz build-clang build-coverage build-python build-wheel
