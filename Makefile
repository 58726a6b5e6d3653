# `make` lists the targets.

SHELL := /bin/bash -o pipefail
GO ?= go
BIN := bin/weir
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

CACHE := $(CURDIR)/.cache
LINT_VERSION := v2.15.0
LINT := $(CACHE)/bin/golangci-lint-$(LINT_VERSION)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The binary is built anew whenever it is asked for: the Go tool knows best what has changed.
.PHONY: build
build: ## bin/weir, with version and commit in it
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o $(BIN) ./cmd/sidecar

.PHONY: demo
demo: build ## a job that is killed again and again, and the proof that nothing is lost or doubled
	$(BIN) demo

.PHONY: test
test: ## all tests that need nothing but Go (under 5 minutes)
	$(GO) test -timeout 5m ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint, installed into .cache at the first run
	$(LINT) run

$(LINT):
	@echo "installing golangci-lint $(LINT_VERSION)"
	@mkdir -p $(@D)
	@GOBIN=$(@D) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv $(@D)/golangci-lint $@

# Packages run one after another: the brokers of two would not fit on two cores.
.PHONY: integration
integration: ## the tests on a real Apache Kafka, which is fetched at the first run
	tests/broker/kafka.sh fetch
	$(GO) test -count=1 -p 1 -timeout 20m -tags integration $(filter-out ./tests/chaos,$(shell grep -rl --include='*_integration_test.go' '^//go:build integration' . | xargs -n1 dirname | sort -u))
	$(GO) test -count=1 -v -timeout 20m -tags integration ./tests/chaos

FAULTS ?= 150
SEED ?= 1
.PHONY: chaos
chaos: ## a long run of faults against a job on three brokers; FAULTS=, SEED= and ONLY=word choose how many and which
	tests/broker/kafka.sh fetch
	FAULTS=$(FAULTS) SEED=$(SEED) ONLY=$(ONLY) ROUNDS=5 $(GO) test -count=1 -v -timeout 12h -tags integration ./tests/chaos

CHECKPOINTS ?= 10000
.PHONY: soak
soak: ## many checkpoints one after the other, and a look at what must not grow with their number
	CHECKPOINTS=$(CHECKPOINTS) $(GO) test -count=1 -v -timeout 2h -tags integration -run TestFault47 ./sidecar

.PHONY: bench
bench: ## CPU per record against the bare wire loop, start and memory, on a real Apache Kafka; the machine should be idle
	tests/broker/kafka.sh fetch
	$(GO) test -count=1 -timeout 20m -tags bench -v -run 'TestBench|TestIdle' ./tests/bench

.PHONY: clean
clean: ## remove what was built; .cache stays
	rm -rf bin
