# `make` or `make help` lists what can be made.
GO ?= go
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start analytics on the embedded default, in ./tidemill-data
	$(GO) run ./cmd/tidemill run

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

build: ## build the static binary into bin/
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tidemill ./cmd/tidemill

sbom: build ## list what is in the binary (CycloneDX), in bin/tidemill.cdx.json
	$(GO) tool -modfile=scripts/sbom/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp -version $(VERSION) -output bin/tidemill.cdx.json bin/tidemill

test: race sim e2e servers faults attack ## everything: unit tests under the race detector, simulation, real SDKs, real servers, faults, attacks

# A stage of tests ends with its ten slowest tests and its summary. Where it is AGAIN, a test
# that failed runs again alone: real servers on a busy machine, see test/flaky.txt.
STAGE = $(GO) run ./test/stage
AGAIN = $(STAGE) -again

unit: ## tests on memory and SQLite backends, anywhere, in two to three minutes with compiling
	$(STAGE) unit ./...

# SQLite is translated from C, is four times slower when watched, and shares no memory with us.
UNWATCHED = -gcflags=modernc.org/sqlite/lib=-race=false

race: ## the same tests under the race detector, with 30 simulated seeds; minutes
	sh scripts/need.sh cc
	CGO_ENABLED=1 TIDEMILL_SIM_SEEDS=30 $(STAGE) race ./... -- -race $(UNWATCHED) -timeout 20m

sim: ## 500 seeds of the simulation of each system
	$(STAGE) sim ./sim -- -timeout 20m -count=1 -args -seeds 500

e2e: test/sdk/node_modules test/sdk/venv ## real SDKs against the real binary, killed 50 times
	sh scripts/need.sh chromium
	$(STAGE) e2e ./test/e2e -- -tags e2e -timeout 20m -count=1

# Packages with tests on real servers: scripts/services installs and starts these. The last by
# name go first: analyticstest waits five minutes for a lease, in which others can work.
WITH_SERVERS = $$(grep -rl --include='*_test.go' -e internal/testenv -e redisconn/redistest . | grep -v -e '^./test/e2e' -e '^./test/faults' -e '^./test/attack' | xargs -n1 dirname | sort -ru)

servers: test/sdk/node_modules ## the same tests on real Redis, PostgreSQL, ClickHouse engine, Kafka, Mosquitto; every console block of the docs
	sh scripts/need.sh shell
	sh scripts/need.sh chromium
	TIDEMILL_TEST_SERVERS=1 $(AGAIN) servers $(WITH_SERVERS) -- -timeout 25m -p 3 -parallel 40 -count=1

faults: ## the real binary on real servers that are killed, cut off, frozen and emptied
	TIDEMILL_TEST_SERVERS=1 $(AGAIN) faults ./test/faults -- -tags servers -timeout 25m -count=1

attack: ## what a stranger can do to the real binary on real servers, each attack bounded by counts
	TIDEMILL_TEST_SERVERS=1 $(AGAIN) attack ./test/attack -- -tags servers -timeout 25m -count=1

servers-down: ## end the servers that tests share
	for d in $${TMPDIR:-/tmp} /dev/shm/tidemill-tests; do \
		[ ! -d $$d/tidemill-services ] || SERVICES_DIR=$$d/tidemill-services bash scripts/services/services.sh down; done

test/sdk/node_modules: test/sdk/package.json test/sdk/package-lock.json
	sh scripts/need.sh node
	cd test/sdk && npm install --no-save --ignore-scripts # not npm ci: what a dependency has for other systems may not be in the lock
	touch $@

test/sdk/venv: test/sdk/requirements.txt
	sh scripts/need.sh python
	python3 -m venv $@ && $@/bin/pip install -q -r $<
	touch $@

fuzz: ## fuzz every decoder of outside bytes for a minute each
	sh scripts/fuzz.sh 60s

# Sample, seed and packages: make mutate MUTATE="-sample 40 -seed 7 flow policy". Memory is
# bounded, for some faults never stop asking for more.
MUTATE ?= -sample 100
mutate: ## make small faults in the code, one at a time, and count those that tests notice (hours)
	ulimit -d 8000000; nice $(GO) run ./internal/mutate $(MUTATE)

lint: ## gofmt, go vet, staticcheck, known vulnerabilities
	sh scripts/lint.sh

bench: ## measure the systems as they are shipped (minutes)
	$(GO) run ./bench/analytics
	$(GO) run ./bench/servers
	$(GO) run ./bench/bridge
	$(GO) run ./bench/queue
	$(GO) run ./bench/ingest
	$(GO) run ./bench/partners
	$(GO) run ./bench/crm
	$(GO) run ./bench/windows
	$(GO) run ./bench/lists

clean: ## delete what was built
	rm -rf bin test/sdk/node_modules test/sdk/venv

.PHONY: help run build sbom test unit race sim e2e fuzz mutate lint bench servers faults attack servers-down clean
