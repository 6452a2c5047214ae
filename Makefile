# `make` or `make help` lists what can be made.
GO ?= go
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start analytics on the embedded default, in ./tidemill-data
	$(GO) run ./cmd/tidemill run

build: ## build the static binary into bin/
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(shell git describe --tags --always --dirty 2>/dev/null || echo dev)" -o bin/tidemill ./cmd/tidemill

test: unit race sim e2e servers faults ## everything: unit tests, race detector, simulation, real SDKs, real servers, faults

unit: ## tests on memory and SQLite backends, anywhere, in two to three minutes with compiling
	$(GO) test ./...

# SQLite is translated from C, is four times slower when watched, and shares no memory with us.
UNWATCHED = -gcflags=modernc.org/sqlite/lib=-race=false

race: ## the same under the race detector, with 30 simulated seeds
	sh scripts/need.sh cc
	CGO_ENABLED=1 TIDEMILL_SIM_SEEDS=30 $(GO) test -race $(UNWATCHED) -timeout 20m ./...

sim: ## 500 seeds of the simulation of each system
	$(GO) test -timeout 20m -count=1 ./sim -seeds 500

e2e: test/sdk/node_modules ## real SDKs against the real binary, killed 50 times
	$(GO) test -tags e2e -timeout 20m -count=1 ./test/e2e

# Packages with tests on real servers: scripts/services installs and starts these. The last by
# name go first: analyticstest waits five minutes for a lease, in which others can work.
WITH_SERVERS = $$(grep -rl --include='*_test.go' -e internal/testenv -e redisconn/redistest . | grep -v '^./test/' | xargs -n1 dirname | sort -ru)

servers: ## the same tests on real Redis, PostgreSQL, ClickHouse engine, Kafka, Mosquitto
	TIDEMILL_TEST_SERVERS=1 $(GO) test -timeout 25m -p 3 -parallel 40 -count=1 $(WITH_SERVERS)

faults: ## the real binary on real servers that are killed, cut off, frozen and emptied
	TIDEMILL_TEST_SERVERS=1 $(GO) test -tags servers -timeout 25m -count=1 ./test/faults

servers-down: ## end the servers that tests share
	SERVICES_DIR=$${TMPDIR:-/tmp}/tidemill-services bash scripts/services/services.sh down

test/sdk/node_modules: test/sdk/package.json test/sdk/package-lock.json
	sh scripts/need.sh node
	cd test/sdk && npm ci --ignore-scripts
	touch $@

fuzz: ## fuzz every decoder of outside bytes for a minute each
	sh scripts/fuzz.sh 60s

lint: ## gofmt, go vet, staticcheck, govulncheck where its data can be had
	sh scripts/lint.sh

bench: ## measure the systems as they are shipped (minutes)
	$(GO) run ./bench/analytics
	$(GO) run ./bench/servers
	$(GO) run ./bench/bridge
	$(GO) run ./bench/queue
	$(GO) run ./bench/ingest
	$(GO) run ./bench/crm
	$(GO) run ./bench/windows

clean: ## delete what was built
	rm -rf bin test/sdk/node_modules

.PHONY: help run build test unit race sim e2e fuzz lint bench servers faults servers-down clean
