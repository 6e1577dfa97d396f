# `make demo` and `make test` are complete on a fresh Debian or Ubuntu machine, as root.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.NOTPARALLEL:

# What ran last in which suite, as JUnit XML.
REPORTS := build/reports
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest
# What reads all sources and pages.
HOUSE := tests/unit/test_english.py tests/unit/test_hygiene.py tests/unit/test_structure.py
# A file's tests stay together, because they share what is slow to make.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile
# More than there are cores: half of their time these tests wait for an API server to let go of things.
# Tests that share a fixture of their file stay together (tests/conftest.py).
ENGINE_PARALLEL := --numprocesses 3 --dist loadscope --no-loadscope-reorder
REHEARSED := aws-p5-prod aws-p5en-block gcp-a3-mega gcp-a3-ultra onprem-ib-sriov onprem-roce-shared
# First in a stage's recipe: however it ends, what it took is noted and shown, and it ends as it would.
define stage
@mkdir -p $(REPORTS); rm -f $(REPORTS)/$(1).* $(REPORTS)/$(1)-again.*
trap 'status=$$?; $(VENV)/python tools/times.py $(1) $$SECONDS || true; exit $$status' EXIT
endef
# $(call tests,STAGE,WHICH AND HOW MANY AT ONCE): what failed is run once more, alone and on servers of
# its own. What then passes is listed as unsteady: it is to be mended, but stops nobody.
define tests
$(PYTEST) $(2) -o cache_dir=build/cache/$(1) --junit-xml=$(REPORTS)/$(1).xml $(ARGS) || {
  [ $$? = 1 ] || exit 2
  echo; echo "railhead: what failed, once more"
  $(PYTEST) $(2) --numprocesses 0 --last-failed --last-failed-no-failures none \
    -o cache_dir=build/cache/$(1) --junit-xml=$(REPORTS)/$(1)-again.xml $(ARGS)
}
endef
# A checkout's own commands first, so that nobody needs to activate anything.
export PATH := $(CURDIR)/$(VENV):$(PATH)
export PYTHONUNBUFFERED := 1
# Compiled tests are kept, whatever the environment says: half of each worker's collection.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## What there is to make
	@echo "Railhead: a GPU training cluster from fabric to launcher"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

.PHONY: venv
venv: ## The Python environment, .venv, from the pinned requirements
	@tools/bootstrap.sh

.PHONY: demo
demo: venv ## A real cluster, `pulumi up` on it, a real two-node training run; leaves the lab up
	@$(VENV)/python tools/demo.py

.PHONY: down
down: venv ## Take the demo's lab down; the cache of what was built stays
	@$(VENV)/railhead lab down

.PHONY: test
test: venv forget lint types quick nccl-eval clusters ## Style, types, quick tests, tests on a lab of their own (CI: REHEARSE=1)
	@echo; $(VENV)/python tools/times.py

.PHONY: forget
forget:
	@rm -rf $(REPORTS)

.PHONY: lint
lint: venv ## Style of the Python and of the Go sources, house rules
	$(call stage,lint)
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	tools/gofmt.sh
	$(PYTEST) -m "house and not slow" $(HOUSE) --numprocesses auto --maxprocesses 4 $(ARGS)

.PHONY: types
types: venv ## The strict type checker; its cache is kept beside the lab's
	$(call stage,types)
	echo "railhead: mypy, strict"
	$(VENV)/mypy --cache-dir "$${RAILHEAD_CACHE:-$$HOME/.cache/railhead}/mypy"

.PHONY: quick
quick: venv ## The quick tests alone, two minutes, no root, no lab
	$(call stage,quick)
	$(call tests,quick,$(PARALLEL))

.PHONY: nccl-eval
nccl-eval: venv ## How well NCCL logs are read, by part and label (WRITE=1: into docs/)
	$(call stage,nccl-eval)
	PYTHONPATH=. $(VENV)/python tests/nccl/evaluate.py $(if $(WRITE),--write)

.PHONY: lab-test
lab-test: venv ## The tests on a real lab, its own (ACCEPTANCE=1: with those of `make acceptance`)
	$(call stage,lab)
	$(VENV)/railhead lab build
	$(call tests,lab,-m "lab and$(if $(ACCEPTANCE),, not acceptance and) not exhaustive and not contests and not harms and not sabotage and not frameworks and not watching and not operators and not upgrade and not volcano" -v)

.PHONY: acceptance
acceptance: venv ## The acceptance suite, restarts, rails and a repository from wheels, on a lab of their own
	$(call stage,acceptance)
	$(VENV)/railhead lab build
	$(call tests,acceptance,-m "acceptance and not exhaustive" -v)

.PHONY: contests
contests: venv ## 200 contests of gangs in a lab of their own; RAILHEAD_CONTESTS says how many
	@$(VENV)/railhead lab build
	$(PYTEST) -m contests -v $(ARGS)

.PHONY: harms
harms: venv ## Nodes, their services, places and controllers lost while jobs run, on a lab of their own
	@$(VENV)/railhead lab build
	$(PYTEST) -m harms -v -s $(ARGS)

.PHONY: frameworks
frameworks: venv ## TensorFlow and Paddle killed in the middle, from an image of their own, on a lab
	@$(VENV)/railhead lab build
	$(PYTEST) -m frameworks -v -s $(ARGS)

.PHONY: volcano
volcano: venv ## Gangs that Volcano admits, on a lab of their own; it is built first (minutes)
	@$(VENV)/railhead lab build
	$(VENV)/railhead lab build --only volcano
	$(PYTEST) -m volcano -v -s $(ARGS)

.PHONY: operators
operators: venv ## Jobs of three projects' operators, which are built first: two on a lab, KubeRay's without
	@$(VENV)/railhead lab build
	$(VENV)/python -m railhead.lab.artifacts.operators
	$(PYTEST) -m operators -v -s $(ARGS)

.PHONY: upgrade
upgrade: venv ## Controllers upgraded and put back while jobs run, in a lab of their own
	@$(VENV)/railhead lab build
	$(VENV)/railhead lab build --only upgraded
	$(VENV)/railhead lab build --only trainer-upgraded
	$(PYTEST) -m upgrade -v -s $(ARGS)

.PHONY: sabotage
sabotage: venv ## Seven ways to sabotage a lab, each told by the right check, in a lab of their own
	@$(VENV)/railhead lab build
	$(PYTEST) -m lab tests/lab/test_sabotaged.py -v $(ARGS)

.PHONY: watching
watching: venv ## A lab of its own with Prometheus, Alertmanager and kube-state-metrics, on real jobs
	@$(VENV)/railhead lab build
	$(PYTEST) -m watching -v -s $(ARGS)

.PHONY: engine-test
engine-test: docs-tools browser ## The tests on the real engine and on API servers of their own; no root, no lab
	$(call stage,engine)
	$(VENV)/railhead lab build
	$(VENV)/railhead lab build --only twin-operators
	$(call tests,engine,-m "(controlplane or slow) and not lab and not volcano and not operators and not exhaustive$(if $(REHEARSE), and not rehearsal)" $(ENGINE_PARALLEL))

.PHONY: clusters
clusters: docs-tools browser ## lab-test, and engine-test beside it (REHEARSE=1: then rehearse) on the time that the lab leaves
	@$(VENV)/railhead lab build
	$(VENV)/railhead lab build --only twin-operators
	mkdir -p build
	nice -n 10 $(MAKE) --keep-going engine-test $(if $(REHEARSE),rehearse) >build/engine.log 2>&1 & engine=$$!
	trap 'kill $$engine 2>/dev/null || true' EXIT
	status=0; $(MAKE) lab-test || status=$$?
	wait $$engine || status=$$?
	cat build/engine.log
	exit $$status

.PHONY: exhaustive
exhaustive: venv ## On the engine and on API servers: every fabric, stack and field, where engine-test takes a few
	@$(VENV)/railhead lab build
	$(PYTEST) -m "exhaustive and not lab" $(ENGINE_PARALLEL) $(ARGS)

.PHONY: exhaustive-lab
exhaustive-lab: venv ## On a lab of their own: every framework, kill and repeat, where lab-test takes a few
	@$(VENV)/railhead lab build
	$(PYTEST) -m "exhaustive and lab" -v $(ARGS)

.PHONY: rehearse
rehearse: venv ## Every shipped stack but the lab's, rehearsed; reports in build/rehearsal (STACKS="...")
	@$(VENV)/railhead lab build
	$(VENV)/railhead lab build --only twin-operators
	mkdir -p build/rehearsal
	# Two at once: each waits for half of its time. One that failed is rehearsed once more.
	printf '%s\n' $(or $(STACKS),$(REHEARSED)) | xargs -P 2 -I STACK sh -c '
	  log=build/rehearsal/STACK.log; ended=0
	  $(VENV)/railhead rehearse STACK --report build/rehearsal/STACK >$$log 2>&1 ||
	    $(VENV)/railhead rehearse STACK --report build/rehearsal/STACK-again >>$$log 2>&1 || ended=1
	  cat $$log; exit $$ended'

.PHONY: fmt
fmt: venv ## Format the sources
	@$(VENV)/ruff check --fix-only --quiet .
	$(VENV)/ruff format .

.PHONY: bench
bench: venv ## Times and memory of the lab, measured on this machine
	@$(VENV)/python benchmarks/lab.py

.PHONY: bench-nccl
bench-nccl: venv ## Speed of `railhead nccl read` over a 1 GB log, next to grep
	@$(VENV)/python benchmarks/nccl.py

.PHONY: mutants
mutants: venv ## Which mistakes of one line the quick tests would miss (SAMPLE=100 SEED=1 PATHS="components")
	@PYTHONPATH=. $(VENV)/python tools/mutants.py --sample $(or $(SAMPLE),100) --seed $(or $(SEED),1) $(PATHS)

.PHONY: docs-tools
docs-tools: venv
	@$(VENV)/python -m pip install --quiet --require-hashes --requirement requirements/docs.txt \
	  --requirement requirements/verify.txt

.PHONY: browser
browser:
	@command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null && exit
	install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium-headless-shell; }
	[ "$$(id -u)" = 0 ] && { install || { apt-get update -q && install; }; } >/dev/null 2>&1 ||
	  echo "railhead: no browser looks at the site: as root, apt-get install chromium-headless-shell"

.PHONY: site
site: docs-tools ## The documentation as a site with search, build/site/VERSION; fails on a broken link
	@PYTHONPATH=. $(VENV)/python tools/site.py

.PHONY: dist
dist: venv ## Wheels and source distributions of the four, and requirements with their hashes, in dist/
	@rm -rf dist
	for folder in distributions/diagnose . distributions/accept distributions/lab; do
	  (cd $$folder && $(CURDIR)/$(VENV)/python -m hatchling build -d $(CURDIR)/dist)
	done
	PYTHONPATH=. $(VENV)/python tools/pins.py dist

.PHONY: release
release: docs-tools ## A release in dist/VERSION: distributions, plugin, policies, site, SBOMs, provenance (VERSION=0.1.0)
	@PYTHONPATH=. $(VENV)/python tools/release.py "$(VERSION)"
	$(VENV)/railhead verify-release "dist/$(VERSION)"

.PHONY: lock
lock: venv ## Pin the requirements again after a change in pyproject.toml (UPGRADE=1: newest)
	@$(VENV)/python -m pip install --quiet --require-hashes --requirement requirements/lock.txt
	tools/lock.sh

.PHONY: clean
clean: ## Remove what was made in this checkout; the lab's cache stays (railhead lab build --help)
	@rm -rf .venv .venv.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
