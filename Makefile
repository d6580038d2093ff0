SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What may be set: RULES, ARGS (run), VERSION, TARGETS (release), BASE (check), FUZZTIME (test/all), RUNS, SEED (test/faults, test/fuzz, test/schedules, test/simulation), SEEDS, DATABASE (test/simulation), REQUESTS (test/fuzz), FOR, RATE (test/soak), LIMITS, SIZE (test/limits), BUGS (test/mutations), POSTGRES (test/postgres), BENCH (bench), and what
# internal/tools/curves names (bench/curves).
RULES ?= examples/orders
ARGS  ?=
RUNS  ?= 200
SEED  ?= 1
REQUESTS ?= 20000
SEEDS ?= 10000
DATABASE ?= sqlite
FOR   ?= 4h
RATE  ?= 500
LIMITS ?= rules,streams,tenants,keys,pages
SIZE  ?= 1000
BUGS  ?=
BENCH ?= .

## run: build, and serve with nothing configured: SQLite, NATS, HTTP, and the rules of RULES
.PHONY: run
run: build
	@exec bin/deadman serve --rules $(RULES) $(ARGS)

## build: the static binary bin/deadman
.PHONY: build
build:
	@internal/tools/build

## release: archives of VERSION for Linux, macOS and Windows in bin/release/, with bills of materials and checksums
.PHONY: release
release:
	@internal/tools/release

## check: vet, format, lint and tests of the packages that changed since the branch left BASE, and of their importers; cached
.PHONY: check
check:
	@internal/tools/check

## test: vet, format and the tests of all packages: both databases, NATS, samples of the browser tests and of faults
.PHONY: test
test:
	@internal/tools/test

## test/ui: all tests of the pages, in a browser
.PHONY: test/ui
test/ui:
	@internal/tools/ui

## test/race: the packages with the most concurrency, with the race detector
.PHONY: test/race
test/race:
	@internal/tools/race

## test/all: lint, every test with the race detector, long runs, more faults, other languages, fuzz tests for FUZZTIME each
.PHONY: test/all
test/all:
	@internal/tools/test-all

## test/faults: the fault campaign: RUNS seeded runs from SEED on, and every promise checked after each
.PHONY: test/faults
test/faults:
	@internal/tools/needs postgres promtool
	@DEADMAN_TEST_LONG=1 go test -count=1 -timeout 4h -v ./internal/faults -seed $(SEED) -runs $(RUNS)

## test/simulation: SEEDS runs of nodes in virtual time from SEED on, on sqlite or postgres (DATABASE), judged from outside
.PHONY: test/simulation
test/simulation:
	@internal/tools/simulation $(SEED) $(SEEDS) $(DATABASE)

## test/ha: breaks each part of a deployment with Patroni, HAProxy, PgBouncer and NATS in turn, and prints what it costs; 15 minutes
.PHONY: test/ha
test/ha:
	@internal/tools/needs postgres pgbouncer patroni
	@DEADMAN_TEST_LONG=1 go test -count=1 -timeout 40m -v ./internal/ha

## test/postgres: the conformance suite on each of the POSTGRES versions, 15 to 18; missing ones come from npm
.PHONY: test/postgres
test/postgres:
	@internal/tools/postgres

## test/fuzz: REQUESTS odd requests of SEED to a real node: API, pages, hooks, pings; no fault, panic, cut connection or growth
.PHONY: test/fuzz
test/fuzz:
	@go test -race -count=1 -timeout 4h -v ./internal/fuzz -seed $(SEED) -requests $(REQUESTS)

## test/hostile: ten minutes of hostile rules, lints, previews and events against a node in 512 MB
.PHONY: test/hostile
test/hostile:
	@go test -count=1 -timeout 1h -v ./internal/faults -run '^TestHostileRules$$' -hostile 10m

## test/soak: a node under RATE orders a second FOR a time, and live pages; neither memory, files, tables nor streams may grow
.PHONY: test/soak
test/soak:
	@internal/tools/needs postgres
	@go build -o bin/tools/pgtest ./internal/store/storetest/cmd/pgtest
	@DEADMAN_TEST_LONG=1 bin/tools/pgtest -durable go test -count=1 -timeout 24h -v ./internal/faults -run '^TestSoak$$' -soak $(FOR) -soak-rate $(RATE) -soak-samples $(CURDIR)/bin/soak.csv

## docs/pictures: record what the dashboards show of two nodes under a load in which parts fail, 13 minutes, and draw it
.PHONY: docs/pictures
docs/pictures:
	@internal/tools/needs postgres promtool
	@go build -o bin/tools/pgtest ./internal/store/storetest/cmd/pgtest
	@DEADMAN_TEST_LONG=1 bin/tools/pgtest -durable go test -count=1 -timeout 30m ./internal/faults -run '^TestDashboardsUnderLoad$$' -load 12m -load-samples $(CURDIR)/bin/load.json
	@go run ./internal/tools/pictures -load bin/load.json

## test/limits: measure what docs/limits.md says of LIMITS (rules, streams, tenants, keys, pages), with SIZE objects
.PHONY: test/limits
test/limits:
	@internal/tools/needs postgres
	@go build -o bin/tools/pgtest ./internal/store/storetest/cmd/pgtest
	@DEADMAN_TEST_LONG=1 bin/tools/pgtest -durable go test -count=1 -timeout 2h -v ./internal/faults -run '^TestLimitsOfANode$$' -limits $(LIMITS) -limits-size $(SIZE) -limits-idle 10s

## test/schedules: 200,000 schedules from SEED on, against an oracle that looks at the clock each minute; and a million rules at midnight
.PHONY: test/schedules
test/schedules:
	@go test -count=1 -timeout 1h ./internal/schedules -run '^Test(Oracle|Herd)$$' -v -cases 200000 -seed $(SEED)

## test/mutations: plant the bugs whose names match BUGS, one at a time, and see a test fail
.PHONY: test/mutations
test/mutations:
	@internal/tools/needs postgres
	@go build -o bin/tools/pgtest ./internal/store/storetest/cmd/pgtest
	@bin/tools/pgtest go run ./internal/tools/mutations -run '$(BUGS)'

## bench: the benchmarks whose names match BENCH
.PHONY: bench
bench:
	@internal/tools/needs postgres
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 1h $$(internal/tools/packages 'func Benchmark')

## bench/curves: measure what docs/operations/performance.md shows, on a Postgres that is set as it says there, and draw it
.PHONY: bench/curves
bench/curves: build
	@internal/tools/needs postgres
	@go build -o bin/tools/pgtest ./internal/store/storetest/cmd/pgtest
	@bin/tools/pgtest -durable -set shared_buffers=1GB -set max_wal_size=8GB -set checkpoint_timeout=30min -set wal_compression=lz4 internal/tools/curves

## lint: what golangci-lint and deadcode find
.PHONY: lint
lint:
	@internal/tools/lint

## fmt: format the code
.PHONY: fmt
fmt:
	@$$(internal/tools/tool gofumpt) -w .

## clean: remove what was built; ./deadman-data stays
.PHONY: clean
clean:
	@rm -rf bin

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z/]*\): /make \1: /p' Makefile | awk -F': ' '{ printf "  %-16s %s\n", $$1, substr($$0, length($$1) + 3) }'
