# Everything a developer types. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The first interpreter that is 3.11 or later and can make a virtual environment; override with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SHOWN := $(VENV)/.shown
LINKS := .links/fluvial
FOLDERS := dsl planner runtime

# The documentation's tools advertise their successors otherwise.
export NO_MKDOCS_2_WARNING := 1

# What a shell may carry must not decide what is tested.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON VIRTUAL_ENV

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) $(SHOWN) links ## make .venv with the package and every tool; does nothing where that is done

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later with venv is needed; say which: make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[all]' --group dev
	@$(BIN)/python -m compileall -q -j 0 -x '/(tests?|pip|mypyc?|pygments)/' $(VENV)/lib # by all cores, as pip does not
	@touch $@

# Type checkers cannot follow the import hook of an editable install; a path they can, in files outside this folder too.
$(SHOWN): $(STAMP)
	@echo '$(CURDIR)/.links' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fluvial-links.pth"
	@touch $@

.PHONY: links
links: $(FOLDERS:%=$(LINKS)/%) ## link the folders under .links/fluvial, where type checkers find them by their public names

$(LINKS)/%:
	@mkdir -p $(LINKS)
	@ln -sfn ../../$* $@

# The longest come first, and a short one begins where another has ended, so that none of them is left to run alone at
# the end; of those that begin late two are on Spark, which has work for all cores. More lanes than cores, as each waits
# for half of its time: for brokers, for Java, for what has died to be noticed.
SHORT_LANES := test-searches test-own-spark
LANES := test-on-spark test-for-users test-properties test-runtime test-systems test-elsewhere $(SHORT_LANES)
ALL_LANES := test-on-spark test-properties test-for-users test-runtime test-faults test-systems test-elsewhere \
	test-cases-on-spark $(SHORT_LANES)
PYTEST := $(BIN)/python -u -m pytest --durations=20

# Else each of the lanes, which begin at once, would compile all that it imports.
.PHONY: bytecode
bytecode: setup
	@$(BIN)/python -m compileall -q $(FOLDERS) tests/support

.PHONY: test test-all $(ALL_LANES)
test: setup bytecode broker-jars spark-jars ## run the tests but for faults and the conformance cases on Spark; few examples of each property
	$(MAKE) --no-print-directory --jobs 5 --keep-going $(LANES) EXAMPLES=--quick

test-all: setup bytecode broker-jars spark-jars ## run all tests but those marked long, seven lanes at a time
	$(MAKE) --no-print-directory --jobs 7 --keep-going $(ALL_LANES)

# To read all tests takes as long as a minute of them, so a lane reads those files alone that may hold what it runs.
# tests/conftest.py refuses a test in another file.
WITH = $(shell grep -rlw --include='test_*.py' $(1) tests | sort)
IN_OTHER_LANES := tests/faults/% tests/properties/% tests/oracle/%

# Two lanes on Spark: all of its tests would take longer than the rest.
CASES := tests/conformance tests/examples
test-on-spark:
	$(PYTEST) -m spark $(filter-out $(CASES:%=%/%) $(OWN_SPARK),$(call WITH,mark.spark)) 2>&1 | sed -u 's/^/on spark  | /'

test-cases-on-spark:
	$(PYTEST) -m spark $(CASES) 2>&1 | sed -u 's/^/cases     | /'

# Most of the time these wait, for what has died to be noticed.
test-faults:
	$(PYTEST) -m "not spark" tests/faults 2>&1 | sed -u 's/^/faults    | /'

# Tests on Spark that start it themselves, each anew.
OWN_SPARK := tests/runtime/spark/query/test_java_process.py tests/spark_engine/test_connect.py
test-own-spark:
	$(PYTEST) -m spark $(OWN_SPARK) 2>&1 | sed -u 's/^/own Spark | /'

# What stands between users and the engines, and what both engines do, has a lane of its own.
FOR_USERS := tests/command_line tests/both_engines tests/benchmarks tests/examples tests/typing tests/docs tests/drawings
ELSEWHERE := --ignore tests/faults --ignore tests/properties --ignore tests/oracle
test-elsewhere:
	$(PYTEST) -m "not spark and not hypothesis" $(ELSEWHERE) --ignore tests/runtime $(FOR_USERS:%=--ignore %) \
		$(SYSTEMS:%=--ignore %) 2>&1 | sed -u 's/^/elsewhere | /'

test-runtime:
	$(PYTEST) -m "not spark and not hypothesis" tests/runtime 2>&1 | sed -u 's/^/runtime   | /'

test-for-users:
	$(PYTEST) -m "not spark and not hypothesis" $(FOR_USERS) 2>&1 | sed -u 's/^/for users | /'

# What the systems keep, and the cases on them; and a file whose tests on Kafka would have a broker of their own elsewhere.
SYSTEMS := tests/kafka tests/systems tests/conformance tests/local_engine/test_elasticity.py
test-systems:
	$(PYTEST) -m "not spark and not hypothesis" $(SYSTEMS) 2>&1 | sed -u 's/^/systems   | /'

EXAMPLES :=
test-searches:
	$(PYTEST) $(EXAMPLES) -m "hypothesis and not spark" $(filter-out $(IN_OTHER_LANES),$(call WITH,hypothesis)) 2>&1 | sed -u 's/^/searches  | /'

test-properties:
	$(PYTEST) $(EXAMPLES) -m "not spark" tests/properties tests/oracle 2>&1 | sed -u 's/^/properties| /'

# To trace the code takes as long again as to run it, so `make test` does without. Properties try few examples, and the
# same ones each time: the figure depends on no chance. Processes that a test starts are traced too, but for those of
# Spark, whose Python workers have ten seconds to come up: the first run goes without the settings in pyproject.toml.
.PHONY: coverage
coverage: setup broker-jars spark-jars ## show what tests take; refuse less than 96 % of lines and branches, and 94 % of branches alone
	$(PYTEST) -m "spark and not hypothesis" $(ELSEWHERE) --cov-config=/dev/null --cov-branch $(FOLDERS:%=--cov=%) --cov-report=
	CI=true $(PYTEST) --quick -m "not spark" $(ELSEWHERE) --cov --cov-append --cov-report=term --cov-fail-under=96
	$(BIN)/coverage json -q -o .coverage.json
	PYTHONPATH=tests/support $(BIN)/python -m branch_share .coverage.json 94

# What is not committed yet counts. CHANGED_SINCE names another commit to compare with.
.PHONY: changed-lines
changed-lines: setup bytecode ## refuse changed lines of the packages that the quick tests of their files do not take
	PYTHONPATH=tests/support $(BIN)/python -m changed_lines

.PHONY: test-quick
test-quick: setup bytecode ## run the tests that need neither Spark nor Kafka nor patience; little more than a minute
	$(BIN)/python -m pytest --quick --numprocesses auto -m "not spark and not kafka and not slow" $(ELSEWHERE) \
		--ignore tests/benchmarks --ignore tests/examples

PART := 1/1
AT_LENGTH := $(BIN)/python -u -m pytest --long -rP --timeout 1800 --part $(PART)
OUTAGES := tests/faults/test_outages_of_the_broker.py
HANDOVERS := tests/faults/test_handovers_on_kafka.py
FAULT_LANES := faults-outages faults-deaths faults-handovers faults-searches faults-on-spark
.PHONY: faults $(FAULT_LANES)
faults: setup bytecode broker-jars spark-jars ## kill, lose, damage and stop all that can be, at length; PART=2/4 takes an hour or so
	$(MAKE) --no-print-directory --jobs 5 --keep-going $(FAULT_LANES)

# Most of the time these wait, for brokers to come back and for what has died to be noticed.
faults-outages:
	$(AT_LENGTH) $(OUTAGES) 2>&1 | sed -u 's/^/outages  | /'

faults-deaths:
	$(AT_LENGTH) -m "not spark" tests/faults --ignore $(OUTAGES) --ignore $(HANDOVERS) 2>&1 | sed -u 's/^/deaths   | /'

# A thousand runs on a broker of their own, of some seconds each.
faults-handovers:
	$(AT_LENGTH) $(HANDOVERS) 2>&1 | sed -u 's/^/handovers| /'

faults-searches:
	$(AT_LENGTH) -m "not spark" tests/properties tests/oracle 2>&1 | sed -u 's/^/searches | /'
	$(AT_LENGTH) -m "not spark and (long or hypothesis)" $(ELSEWHERE) 2>&1 | sed -u 's/^/searches | /'

faults-on-spark:
	$(AT_LENGTH) -m spark tests/faults tests/properties 2>&1 | sed -u 's/^/on Spark | /'
	$(AT_LENGTH) -m "spark and long" $(ELSEWHERE) 2>&1 | sed -u 's/^/on Spark | /'

.PHONY: broker
broker: setup broker-jars ## start a Kafka broker in .kafka and tell its address; Ctrl-C ends it
	@PYTHONPATH=tests/support $(BIN)/python -m kafka.broker .kafka/broker

.PHONY: broker-jars
broker-jars: setup ## let Maven bring the Kafka broker of the tests; does nothing where that is done
	PYTHONPATH=tests/support $(BIN)/python -m kafka.broker_jars broker
	PYTHONPATH=tests/support $(BIN)/python -m kafka.class_archive

.PHONY: spark-jars
spark-jars: setup ## let Maven bring Spark's connector to Kafka for tests and benchmarks; does nothing where that is done
	PYTHONPATH=tests/support $(BIN)/python -m kafka.broker_jars spark
	PYTHONPATH=tests/support $(BIN)/python -m engines.spark_home
	PYTHONPATH=tests/support $(BIN)/python -m engines.spark_classes >/dev/null

LINTERS := style format-check mypy pyright arrows subjects
.PHONY: lint $(LINTERS)
lint: $(LINTERS) ## check style, format, types, the arrows between packages and the subjects of commits; -k goes on after a failure
$(LINTERS): setup
style:
	$(BIN)/ruff check
format-check:
	$(BIN)/ruff format --check
mypy:
	$(BIN)/mypy
pyright:
	$(BIN)/pyright
arrows:
	$(BIN)/lint-imports
subjects:
	.ci/subjects

.PHONY: format
format: setup ## format the code and repair what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: demo
demo: setup ## run the example of the README on both engines
	$(BIN)/python -m examples.demo

.PHONY: bench
bench: setup broker-jars spark-jars ## measure both engines beside loops by hand on a Kafka broker; half an hour
	$(BIN)/python -m benchmarks $(BENCH)

.PHONY: bench-peers
bench-peers: setup broker-jars spark-jars ## measure the engines and Quix Streams, Bytewax, Faust and Pathway; an hour
	$(BIN)/python -m benchmarks.environments
	$(BIN)/python -m benchmarks --peers $(BENCH)

.PHONY: nexmark
nexmark: setup ## run the queries of Nexmark over a log, check their results, and tell how long they take
	$(BIN)/python -m benchmarks.nexmark $(NEXMARK)

.PHONY: soak
soak: setup broker-jars ## run the local engine at half of its top rate, and see that for ten minutes nothing grows
	$(BIN)/python -m benchmarks.soak $(SOAK)

.PHONY: large-state
large-state: setup broker-jars ## fill a window and a join with ten million keys in 2 GiB, lose the state, restore it
	$(BIN)/python -m benchmarks.large_state $(LARGE_STATE)

.PHONY: large-state-on-spark
large-state-on-spark: setup broker-jars spark-jars ## fill a window with ten million keys on Spark, and touch few of them
	$(BIN)/python -m benchmarks.large_state_on_spark $(LARGE_STATE)

.PHONY: bench-elasticity
bench-elasticity: setup broker-jars ## measure elasticity, moves of state, standbys and the autosizer on a Kafka broker; an hour
	$(BIN)/python -m benchmarks.elasticity $(ELASTICITY)

.PHONY: bench-calls
bench-calls: setup ## measure what asynchronous calls cost beside programs by hand, and air traffic control; half an hour
	$(BIN)/python -m benchmarks.calls $(BENCH_CALLS)
	$(BIN)/python -m benchmarks.air_traffic

.PHONY: bench-serdes
bench-serdes: setup ## measure what Avro costs beside JSON, record for record; half a minute
	$(BIN)/python -m benchmarks.serdes

.PHONY: pictures
pictures: setup links ## draw the pictures of the operators' pages anew
	$(BIN)/python -m docs.pictures

.PHONY: golden
golden: setup ## write the golden plans and drawings anew; read the difference before you commit it
	FLUVIAL_REWRITE=1 $(BIN)/python -m pytest -q tests/plans tests/drawings tests/examples tests/docs/test_pages.py -k "golden or drawing_of"

.PHONY: docs
docs: setup ## build the documentation into site/
	$(BIN)/mkdocs build --strict

.PHONY: docs-serve
docs-serve: setup ## serve the documentation and follow changes
	$(BIN)/mkdocs serve

.PHONY: release-check
release-check: setup ## build wheel and sdist, install each in an empty environment, run demo and typing suite there
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group release
	.ci/release-check

.PHONY: clean
clean: ## remove what is made, the virtual environment too
	rm -rf $(VENV) .links build dist site *.egg-info .fluvial .kafka .peers spark-warehouse metastore_db artifacts derby.log
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
