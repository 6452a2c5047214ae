# `make` or `make help` lists what can be made.
GO ?= go
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start analytics on the embedded default, in ./tidemill-data
	$(GO) run ./cmd/tidemill run

# A release is a tag, without its v; anything else is 0.0.0 with the commit, which comes before.
COMMIT = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE = $(shell git log -1 --format=%cI 2>/dev/null || date -u +%Y-%m-%dT%H:%M:%SZ)
VERSION = $(or $(patsubst v%,%,$(shell git describe --tags --exact-match --dirty 2>/dev/null)),0.0.0-g$(shell git describe --always --exclude='*' --dirty 2>/dev/null || echo unknown))

LDFLAGS = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
# How many bytes the small binary may have.
MOST = 45400000

build: ## build the static binary into bin/
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/tidemill ./cmd/tidemill

embedded: ## build the small binary, without clients of servers, into bin/tidemill-embedded
	$(GO) build -trimpath -tags embedded -ldflags "$(LDFLAGS)" -o bin/tidemill-embedded ./cmd/tidemill
	@size=$$(wc -c <bin/tidemill-embedded); test $$size -le $(MOST) || { echo "bin/tidemill-embedded has $$size bytes, and at most $(MOST) are allowed: what has come in? go tool nm -size" >&2; exit 1; }

# What makes releases is a module of its own: the product's stay few.
bin/release: $(wildcard scripts/release/*.go scripts/release/*.tmpl) scripts/release/go.mod
	cd scripts/release && $(GO) build -trimpath -buildvcs=false -o ../../bin/release .

RELEASE = bin/release $(1) -version $(VERSION) -commit $(COMMIT) -date $(DATE)

image: bin/release ## make the container's image for this machine, in bin/image.tar, without a daemon
	$(call RELEASE,image) -out bin

release-dry: bin/release ## make all that a release has, in dist/, signed with a key that is thrown away
	$(call RELEASE,build) $(if $(TARGETS),-targets $(TARGETS))

release: bin/release ## make the release of a tag, in dist/, signed with the key in the file that KEY names
	@git describe --tags --exact-match >/dev/null && test -z "$$(git status --porcelain)" || { echo "a release is made of a tag, without changes" >&2; exit 1; }
	@test -f "$(KEY)" || { echo "KEY names no file: make release KEY=FILE" >&2; exit 1; }
	$(call RELEASE,build) -key $(KEY)

release-push: bin/release ## publish the image of dist/ under IMAGES, which are names with tags
	bin/release push dist/tidemill_$(VERSION)_image.tar $(IMAGES)

# SHORT=-short: the second release takes from the cache what the first has compiled.
test-release: ## make this machine's release twice, install it as root, upgrade and purge it, look into its image
	sh scripts/need.sh package
	cd scripts/release && $(GO) vet -tags install . && $(GO) test -tags install -count=1 -timeout 30m $(SHORT) .

# The whole runs what needs no server once, under the race detector.
test: AFTER = -after race
test: race sim e2e servers faults attack ## everything: unit tests under the race detector, simulation, real SDKs, real servers, faults, attacks

# What lint and tests compile, and the programs that tests build: once for all of them. Checkouts
# share what has no paths in it, and what debuggers read is a fifth of the time of compiling.
CHECKED = GOFLAGS="$$($(GO) env GOFLAGS) -trimpath -gcflags=all=-dwarf=false"

# A stage of tests ends with its ten slowest tests and its summary. Where it is AGAIN, a test
# that failed runs again alone: real servers on a busy machine, see test/flaky.txt.
STAGE = $(CHECKED) $(GO) run ./test/stage
AGAIN = $(STAGE) -again

unit: ## tests on memory and SQLite backends, anywhere, in two to three minutes with compiling
	$(STAGE) unit ./...

# What is many times slower when watched, and shares no memory with another goroutine: SQLite, which is
# translated from C, and what reads command lines, patterns, YAML and Go for one caller.
UNWATCHED = $(foreach p,modernc.org/sqlite/lib github.com/alecthomas/kong regexp/... github.com/goccy/go-yaml/... go/...,'-gcflags=$(p)=-race=false -dwarf=false')

# Without GORACE each process that ends, of a package or a command, waits a second first.
race: ## the same tests under the race detector, with 10 simulated seeds; minutes
	sh scripts/need.sh cc
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=10 TIDEMILL_SIM_SEEDS=10 $(STAGE) race ./... -- -race $(UNWATCHED) -timeout 20m

sim: ## 500 seeds of the simulation of each system
	$(STAGE) sim ./sim -- -timeout 20m -count=1 -args -seeds 500

e2e: test/sdk/node_modules test/sdk/venv ## real SDKs against the real binary, killed 50 times
	sh scripts/need.sh chromium
	sh scripts/need.sh firefox
	$(STAGE) e2e ./test/e2e -- -tags e2e -timeout 20m -count=1

webkit: test/sdk/node_modules ## the console in the engine of Safari: a check before a release
	sh scripts/need.sh webkit
	$(GO) test -tags e2e,webkit -count=1 -run TestTheConsoleInWebKit ./test/e2e

screenshots: test/sdk/node_modules ## the pictures of docs/console.md, of an instance that a test fills
	sh scripts/need.sh chromium
	SCREENSHOTS=$(CURDIR)/docs/console $(GO) test -tags e2e -count=1 -run TestTheConsoleInABrowser ./test/e2e

# Packages with tests on real servers: scripts/services installs and starts these. The last by
# name go first: analyticstest waits for leases, in which others can work.
WITH_SERVERS = $$(grep -rl --include='*_test.go' -e internal/testenv -e redisconn/redistest . | grep -v -e '^./test/e2e' -e '^./test/faults' -e '^./test/attack' | xargs -n1 dirname | sort -ru) ./internal/testenv

servers: test/sdk/node_modules ## the same tests on real Redis, PostgreSQL, ClickHouse engine, Kafka, Mosquitto; every console block of the docs
	sh scripts/need.sh shell
	sh scripts/need.sh chromium
	TIDEMILL_TEST_SERVERS=1 $(AGAIN) $(AFTER) servers $(WITH_SERVERS) -- -timeout 25m -p 3 -parallel 40 -count=1

# Four at once: they wait for servers and for leases, most of the time.
faults: ## the real binary on real servers that are killed, cut off, frozen and emptied
	TIDEMILL_TEST_SERVERS=1 $(AGAIN) faults ./test/faults -- -tags servers -timeout 25m -count=1 -parallel 4

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

lint: ## gofmt, go vet, staticcheck, what the API breaks, known vulnerabilities
	$(CHECKED) sh scripts/lint.sh

# What is measured: names of the files of results. Some are not what the benchmark of their name
# measures without flags.
BENCHES = queue crm bridge ingest beside windows analytics servers partners sizes scale lists events console console-redis growth-events growth-roles
bench-analytics = analytics -rounds 3
bench-servers = servers -rounds 3
bench-events = events -n 5000000
bench-console-redis = console -on redis
bench-growth-events = growth -of events
bench-growth-roles = growth -of queue,deadletters,ledger,windows,search

bench: ## measure the systems as they are shipped (hours; less with BENCHES=queue); medians are in bin/bench
	mkdir -p bin/bench
	$(GO) build -o bin/bench/bench ./bench
	$(foreach b,$(BENCHES),bin/bench/bench $(or $(bench-$(b)),$(b)) -out bin/bench/$(b).jsonl &&) true

bench-keep: ## keep the last medians, for make bench-compare
	mkdir -p bench/results && cp bin/bench/*.jsonl bench/results/
	$(GO) run ./bench growth -of none -with bench/results/growth-events.jsonl,bench/results/growth-roles.jsonl -plot docs/growth.svg
	$(GO) run ./bench tables docs/performance.md
	$(GO) run ./bench tables docs/scale.md

bench-compare: ## what got worse by more than 5% between the medians that were kept and the last ones
	@worse=0; for f in bin/bench/*.jsonl; do k=bench/results/$${f##*/}; [ ! -e $$k ] || $(GO) run ./bench compare $$k $$f || worse=1; done; exit $$worse

clean: ## delete what was built
	rm -rf bin dist test/sdk/node_modules test/sdk/venv

.PHONY: help run build embedded image release release-dry release-push test-release test unit race sim e2e webkit fuzz mutate lint bench bench-keep bench-compare servers faults attack servers-down clean
