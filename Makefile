# make demo    watch OrbitMQ work on real data
# make test    run the whole test suite
# Neither needs another step before it; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
HOT := $(shell find src -name '*_cy.py' -o -name '*.pxd')
SOURCES := src tests examples benchmarks setup.py

# Tests wait for foreign peers most of the time: four processes share their files, one of them has the Spark session. One that dies ends the run.
IN_PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# The major version of the Java that Spark would take, or nothing.
JAVA_FOUND = $$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')

MAKEFLAGS += --no-builtin-rules
.PHONY: help setup demo-setup demo demo-cluster demo-delay test test-modules class-archives without-linux interpreted asan-build asan fuzz nightly lint format docs pictures bench lock clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# Modules compile while packages are fetched, however make was called.
SIDE_BY_SIDE = @MAKEFLAGS= $(MAKE) -s -j 2 PYTHON="$(PYTHON)"

setup: ## .venv with everything needed to run and test OrbitMQ
	$(SIDE_BY_SIDE) $(MADE)/packages $(MADE)/hot $(MADE)/java

demo-setup: ## .venv with what the demos need, and no tools for development
	$(SIDE_BY_SIDE) $(MADE)/demo $(MADE)/hot $(MADE)/java

demo: demo-setup ## publish 336,776 flights, consume them, read and archive them with Spark
	@$(BIN)/python examples/demo.py $(ARGS)

demo-cluster: demo-setup ## kill a master of a cluster in the middle of the flights and lose none; ARGS=--failover elects another one
	@$(BIN)/python examples/demo_cluster.py $(ARGS)

demo-delay: setup ## a reminder, a repetition, a cancel, a move and a calendar with the delay service; ARGS="--kafka HOST:PORT"
	@$(BIN)/python examples/demo_delay.py $(ARGS)

test: setup ## the whole test suite; ARGS="tests/unit -k name" for a part of it
	@$(BIN)/python -m pytest $(or $(ARGS),$(IN_PARALLEL))

test-modules: setup ## what pytest makes of the test modules, once for the processes and builds of a full run
	@mkdir -p build && $(BIN)/python -m pytest -q --collect-only > build/test-modules.log || { cat build/test-modules.log; exit 1; }

class-archives: setup ## Java's classes as tests need them, to map at each start: the suite takes minutes less (JDK, Maven)
	@$(BIN)/python -m tests.kit.class_archives || echo 'No archives of classes: Java reads its classes at each start'

# Tests that run on two more builds of the hot modules, interpreted and with sanitizers: the property and wire tests, and the unit
# tests in the folders that hold hot modules. Where most tests are about options, names or rights, only those that name a hot
# module. All other unit tests run on both builds with `make nightly`.
# Left out is what takes seconds of CPU time and reaches no hot module, or reads properties alone. A broker that runs out of memory
# at each allocation in turn takes a quarter of the time, and models of whole brokers as much, most of it in Python: they are for
# the night as well. Tests of frames and the fuzzer reach the same modules.
COLD := $(patsubst %,--ignore=tests/property/test_%.py,access_control controller_rules fastjson requests roles) \
  $(patsubst %,--ignore=tests/property/test_%_model.py,pop store timer transactions) \
  $(patsubst %,--ignore=tests/wire/test_%.py,client_requests compressed_registration json_bodies request_codes sql92)
COLD_UNITS := $(patsubst %,tests/unit/protocol/records/test_%.py,compression hashing ids) tests/unit/broker/send/test_without_memory.py
MIXED := $(patsubst %,tests/unit/%,broker/auth client/core client/producer client/sending spark/read)
HOT_UNITS = $(filter-out $(MIXED:=/%) $(COLD_UNITS),$(wildcard $(patsubst src/orbitmq/%,tests/unit/%test_*.py,$(sort $(dir $(HOT)))))) \
  $(sort $(wildcard $(MIXED:%=%/test_*_cy.py)) $(shell grep -l '[a-z]_cy' $(MIXED:%=%/test_*.py)))
HOT_TESTS = -n 2 --dist loadfile tests/property tests/wire $(COLD) $(HOT_UNITS)
# A fifth of the generated examples there: the whole suite has all of them. Both take the constants of all modules, from which
# examples are made, from where the whole suite has them: to look for them in the sources costs a sanitized process many seconds.
FEWER := $(if $(ARGS),,ORBITMQ_EXAMPLES=20) HYPOTHESIS_STORAGE_DIRECTORY=$(CURDIR)/.hypothesis
ALL_UNIT_TESTS := -n 2 --dist loadfile tests/unit tests/wire tests/property

# The files of a build's own tree. What Python and pytest have made of the modules goes along: sanitized processes would take
# three times as long for it, and each would do it anew.
TREE = { git ls-files -z --cached --others --exclude-standard; find src tests -name '*.pyc' -print0; } | tar -cf - --null -T -

# Commands, and clients with a broker, as macOS and Windows have them; the interpreted build is without these modules as well.
without-linux: setup
	@$(BIN)/python -m pytest -q -p tests.kit.without_linux -k 'not apache' \
	  tests/unit/cli/test_platforms.py tests/client/test_sending.py tests/client/test_consuming.py

# The interpreted build is an install in an environment of its own, made without a C compiler. The tools of the tests come from
# .venv; OrbitMQ itself from the install, for it comes first on the path. There, clients do without Linux's modules, too.
INTERPRETED := build/interpreted/venv/bin/python
PURELIB = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

interpreted: setup ## property and wire tests, and unit tests of hot modules, on an install without compiled modules
	@rm -rf build/interpreted && mkdir -p build/interpreted/tree
	@$(TREE) | tar -xf - -C build/interpreted/tree
	@"$(PYTHON)" -m venv --without-pip build/interpreted/venv
	@cd build/interpreted/tree && CC=false $(CURDIR)/$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w .. .
	@$(BIN)/python -m pip --python $(INTERPRETED) install -q --disable-pip-version-check --no-deps build/interpreted/*.whl
	@$(BIN)/python $(PURELIB) > "$$($(INTERPRETED) $(PURELIB))/tools-of-the-tests.pth"
	@cd / && $(CURDIR)/$(INTERPRETED) -m orbitmq.compiled --expect none
	@cd build/interpreted/tree && $(FEWER) $(CURDIR)/$(INTERPRETED) -m pytest -q -p tests.kit.without_linux $(or $(ARGS),$(HOT_TESTS))

# The sanitized build is in a folder of its own, and runs the fuzzer's corpora as well. libFuzzer measures its own memory, and
# the sanitizers' counts as its. ARGS=tests runs all there are.
ASAN_TESTS = $(HOT_TESTS) tests/fuzz -k 'not interpreted' --deselect=tests/fuzz/test_fuzz.py::test_guided_by_coverage
# A use after free comes before 32 MB more are freed; to keep 256 MB from reuse, the default, costs a fifth of the CPU time.
ASAN_ENV = ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=32 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
  LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) $$(gcc -print-file-name=libstdc++.so)"

# Sources that have moved since an earlier build go first. Both builds have the same C of Cython's, unless a source is newer.
SANITIZED_BUILD = mkdir -p build/asan/tree/build && find build/asan/tree \( -name '*.py' -o -name '*.pxd' \) -delete && \
  $(TREE) | tar -xf - -C build/asan/tree && \
  { [ ! -d build/cython ] || cp -a build/cython build/asan/tree/build/; } && \
  cd build/asan/tree && ORBITMQ_COMPILE=1 ORBITMQ_SANITIZE=1 $(CURDIR)/$(BIN)/python setup.py -q build_ext --inplace

asan-build: setup
	@$(SANITIZED_BUILD)

asan: asan-build ## the same tests and the fuzz corpora on a build with AddressSanitizer and UndefinedBehaviorSanitizer (gcc)
	@cd build/asan/tree && export PYTHONPATH=$$PWD/src:$$PWD && $(FEWER) $(ASAN_ENV) $(CURDIR)/$(BIN)/python -m pytest -q -p no:cacheprovider $(or $(ARGS),$(ASAN_TESTS))

# On the sanitized build of an earlier `make asan` where there is one, brought up to date; else on the plain one.
FUZZ_TREE = $(if $(wildcard build/asan/tree),build/asan/tree,.)

fuzz: setup ## hostile input for the compiled modules: SECONDS=60 for all, TARGET=name, SEED=1, EPISODE=7; GUIDED=1 by coverage
ifdef GUIDED
	@PYTHONPATH=$$PWD/src:$$PWD $(BIN)/python -m tests.fuzz $(TARGET) --for $(or $(SECONDS),60)
else
	@if [ $(FUZZ_TREE) != . ]; then $(SANITIZED_BUILD); fi
	@cd $(FUZZ_TREE) && export PYTHONPATH=$$PWD/src:$$PWD && if [ $(FUZZ_TREE) != . ]; then export $(ASAN_ENV); fi && \
	  $(CURDIR)/$(BIN)/python -m tests.fuzz.compiled $(TARGET) --for $(or $(SECONDS),60) --seed $(or $(SEED),1) \
	  $(if $(EPISODE),--first $(EPISODE) --count 1)
endif

# A part that fails ends no other; all that failed are told at the end.
nightly: setup class-archives ## what takes too long for every change: tests marked so, all unit tests on both builds, longer fuzzing, and 200 seeds of the simulation
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/pyright.txt || \
	  echo 'pyright cannot be installed here: its test is not run'
	@failed=; part() { "$$@" || failed="$$failed\n  $$*"; }; \
	  part $(BIN)/python -m pytest -q --nightly -m nightly; \
	  part $(MAKE) interpreted ARGS="$(ALL_UNIT_TESTS)"; \
	  part $(MAKE) asan ARGS="$(ALL_UNIT_TESTS)"; \
	  part $(MAKE) fuzz SECONDS=$(or $(SECONDS),1800); \
	  part $(BIN)/python -m orbitmq.testing.simulation --seeds 1..100; \
	  part $(BIN)/python -m orbitmq.testing.simulation --cluster --seeds 1..100; \
	  [ -z "$$failed" ] || { printf "Failed:$$failed\n" >&2; exit 1; }

lint: setup ## formatting, ruff, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## write the tables of docs/ that follow from the code, and build the site into build/site
	@PYTHONPATH=.:src $(BIN)/python docs/write.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

pictures: setup ## take the pictures of docs/operate/console.md anew, by the tests of the console (Chromium)
	@mkdir -p build/pictures && ORBITMQ_SCREENSHOTS=$$PWD/build/pictures $(BIN)/python -m pytest -q tests/console
	@for one in docs/pictures/console-*.png; do cp build/pictures/$$(basename $$one) $$one || exit 1; done

bench: setup ## OrbitMQ beside Apache RocketMQ (needs a JDK, Maven, and hours; ARGS=--quick for minutes)
	@$(BIN)/python -m benchmarks $(ARGS)

lock: ## write the lock files anew from pyproject.toml
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q --upgrade pip setuptools wheel cython packaging
	ORBITMQ_COMPILE=0 build/lock/bin/python -m pip install -q --editable '.[dev]'
	@build/lock/bin/python requirements/write.py
	build/lock/bin/python -m pip install -q uv
	@build/lock/bin/python requirements/hashed.py

clean: ## remove what builds and tests leave; keeps .venv and downloaded jars
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info $(MADE)/orbitmq $(MADE)/hot
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
	find src \( -name '*_cy.*.so' -o -name '*_cy.*.pyd' \) -delete

distclean: clean ## also remove .venv, the jars and the demo's data
	rm -rf .venv .cache demo-data

$(MADE)/python: requirements/build.txt
	@command -v "$(PYTHON)" >/dev/null || { echo 'Python 3.11 or newer is needed: $(PYTHON) is not on PATH (PYTHON=... names another)' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed: $(PYTHON) is $$("$(PYTHON)" --version 2>&1) (PYTHON=python3.12 names another)" >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv || { echo 'no virtual environment: on Debian and Ubuntu, apt install python3-venv' >&2; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/build.txt
	@mkdir -p $(MADE) && touch $@

# OrbitMQ comes before the packages that it needs: hot modules compile while these are fetched. It comes before the hot modules,
# for this install removes what is compiled. Python compiles the modules of packages at their first use, not pip all of them.
INSTALL = $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --no-deps

$(MADE)/orbitmq: $(MADE)/python pyproject.toml setup.py
	@ORBITMQ_COMPILE=0 $(INSTALL) --no-build-isolation --editable .
	@touch $@

$(MADE)/packages: $(MADE)/python requirements/lock.txt | $(MADE)/orbitmq
	@echo 'Installing the packages of requirements/lock.txt (a minute or two the first time) …'
	@$(INSTALL) --no-build-isolation -r requirements/lock.txt
	@touch $(MADE)/demo $@

$(MADE)/demo: $(MADE)/python requirements/demo.txt | $(MADE)/orbitmq
	@echo 'Installing the packages of requirements/demo.txt (a minute the first time) …'
	@$(INSTALL) --no-build-isolation -r requirements/demo.txt
	@touch $@

$(MADE)/hot: $(MADE)/orbitmq $(HOT)
	@$(BIN)/python setup.py -q build_ext --inplace
	@$(BIN)/python -m orbitmq.compiled
	@touch $@

$(MADE)/java: $(MADE)/python requirements/java.txt | $(MADE)/orbitmq
	@found=$(JAVA_FOUND); if [ "$${found:-0}" -ge 17 ]; then echo "Java $$found found: Spark takes it"; else \
	  echo 'No Java 17 or newer found: installing a Java runtime from PyPI for Spark'; \
	  $(INSTALL) -r requirements/java.txt; fi
	@touch $@
