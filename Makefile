# weir. `make` lists the targets. Every go command runs with GOWORK=off, module by module.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export GOWORK := off
export GOFLAGS ?= -buildvcs=false

PKG      ?= ./...
# Modules that every target covers; with PKG=... only the root, or what MODULES=cmd/weir says. bench/peers stands apart: its
# dependencies are the programs that weir is compared with.
MODULES  ?= $(if $(filter ./...,$(PKG)),. cmd/weir checkpoint/s3store interop/flink,.)
RUN      ?=
INPUT    ?=
ARGS     ?=
BENCH    ?= .
COUNT    ?= 1
BENCHTIME ?= 1s
FUZZTIME ?= 30s
# How long a find may be made smaller: a target ends in time also if it goes on finding.
FUZZMIN  ?= 5s
SEEDS    ?= 200
STEPS    ?= 1000000
KILLS    ?= 200
ROUNDS   ?= 300

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/tools/golangci-lint-$(GOLANGCI_VERSION)

runflag = $(if $(RUN),-run '$(RUN)')
# $(call each,command): the command in each module.
each = for m in $(MODULES); do echo "== $$m: $(strip $(1))"; (cd $$m && $(1)); done
# $(call need,path,what): stop with a clear message if a part of the project is not there.
need = if [ ! -e '$(1)' ]; then echo "make $@: there is no $(1) yet ($(2))" >&2; exit 2; fi

.PHONY: help
help: ## list the targets
	@echo 'Targets of weir:'
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'
	@echo 'Variables: PKG=./ringbuf RUN=TestName INPUT=path ARGS="..." BENCH=regexp COUNT=n BENCHTIME=1s FUZZTIME=30s SEEDS=n SEED=n KILLS=n ROUNDS=n'

.PHONY: build
build: ## build bin/weir
	@mkdir -p bin
	cd cmd/weir && go build -o ../../bin/weir .

.PHONY: run
run: build ## build and run the demo; INPUT=path reads that file
	bin/weir demo $(if $(INPUT),--input '$(INPUT)') $(ARGS)

.PHONY: test
test: ## all tests of all modules
	@$(call each,go test -timeout 10m $(runflag) $(PKG))

.PHONY: race
race: ## the tests under the race detector
	@$(call each,go test -race -timeout 10m $(runflag) $(PKG))

.PHONY: debug
debug: ## the tests of a debug build (-tags weirdebug)
	@$(call each,go test -tags weirdebug -timeout 10m $(runflag) $(PKG))

.PHONY: nounsafe
nounsafe: ## the tests of a build without package unsafe (-tags nounsafe)
	@$(call each,go test -tags nounsafe -timeout 10m $(runflag) $(PKG))

.PHONY: portable
portable: ## the tests with the portable driver on package net (-tags weirportable)
	@$(call each,go test -tags weirportable -timeout 10m $(runflag) $(PKG))

.PHONY: test-32
test-32: ## the tests as a 32-bit program (GOARCH=386)
	@$(call each,GOARCH=386 CGO_ENABLED=0 go test -timeout 10m $(runflag) $(PKG))

.PHONY: vet-cross
vet-cross: ## go vet for the platforms that this machine is not
	@for p in linux/arm64 linux/386 linux/arm darwin/arm64 windows/amd64; do \
	  for m in $(MODULES); do echo "== $$m: go vet for $$p"; \
	    (cd $$m && CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go vet $(PKG)); done; done

.PHONY: lint
lint: $(GOLANGCI) ## gofmt, go vet with each tag, golangci-lint
	@bad=$$(git ls-files '*.go' | xargs -r gofmt -l); if [ -n "$$bad" ]; then echo "not gofmt'ed:"; echo "$$bad"; exit 1; fi
	@for t in '' weirdebug nounsafe weirportable; do for m in $(MODULES); do \
	  echo "== $$m: go vet -tags '$$t'"; (cd $$m && go vet -tags "$$t" ./...); done; done
	@$(call each,$(abspath $(GOLANGCI)) run --config $(abspath .golangci.yml) ./...)

$(GOLANGCI):
	@mkdir -p bin/tools
	GOBIN=$(abspath bin/tools) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/tools/golangci-lint $@

.PHONY: bench-peers
bench-peers: build ## weir beside sockets, gRPC, yamux, NATS and others, interleaved; plots in bench/plots; ARGS="-rounds 5 bulk"
	@cd bench/peers && go run . -plots ../plots $(ARGS)

.PHONY: bench
bench: ## benchmarks, into bin/bench.txt for benchstat; BENCH=regexp PKG=./ringbuf COUNT=10 (compare with benchstat -col /impl)
	@mkdir -p bin; : > bin/bench.txt
	@$(call each,go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) -timeout 60m $(PKG) | tee -a $(CURDIR)/bin/bench.txt)

.PHONY: bench-compare
bench-compare: ## benchmarks of the working tree against those of BASE=ref, interleaved: new allocations and slow-downs fail; ARGS="-short"
	@test -n '$(BASE)' || { echo 'make bench-compare: BASE=ref, the commit to compare with' >&2; exit 2; }
	@cd bench/compare && go run . -base '$(BASE)' -bench '$(BENCH)' -pkg '$(PKG)' $(ARGS)

.PHONY: callgrind
callgrind: ## instructions of the innermost loops, counted by valgrind, against the baseline; ARGS=-write makes that anew
	@mkdir -p bin; go build -o bin/callgrind ./bench/callgrind && bin/callgrind $(ARGS) # go run would leave out the names that valgrind looks for

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@found=0; for m in $(MODULES); do for p in $$(cd $$m && go list $(PKG)); do \
	  for f in $$(cd $$m && go test -list '^Fuzz' "$$p" | grep '^Fuzz' || true); do found=1; echo "== $$p $$f"; \
	    (cd $$m && $(CURDIR)/fuzz/target.sh "$$p" "$$f" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMIN)); done; done; done; \
	if [ $$found = 0 ]; then echo "make fuzz: there are no fuzz targets in $(PKG) yet" >&2; exit 2; fi

.PHONY: sim
sim: ## the deterministic simulator over SEEDS seeds; SEED=n runs that one and prints its trace
	@$(call need,fuzz/sim,the simulator)
	@SEEDS=$(SEEDS) SEED=$(SEED) FIRST=$(FIRST) go test -count 1 -timeout 60m -v -run 'TestSeeds$$' ./fuzz/sim $(ARGS)

.PHONY: model
model: ## the model tests of alignment and tasks, STEPS=1000000 in each mode: exposure is printed; SEED=n begins there
	@for p in align task internal/conform; do STEPS=$(STEPS) SEED=$(SEED) go test -count 1 -timeout 60m -v -run 'TestModelOf|TestAgainstTwin' ./$$p $(ARGS) \
	  | { grep -v '^=== \|^        --- PASS' || true; }; done

.PHONY: hostile
hostile: ## peers that lie, stall, flood, come a thousandfold; prints what each attack cost, and its bounds
	HOSTILE=1 go test -count 1 -timeout 20m -v -run TestHostileTable ./test/hostile

.PHONY: stress
stress: ## the stress tests under race, at 1, 2, 4 and 16 processors; KILLS ends of exchanges killed; SEED=n repeats
	@found=0; for p in $$(go list $(PKG)); do if go test -list Stress "$$p" | grep -q '^Test'; then found=1; \
	  go test -race -run Stress -count $(COUNT) -cpu 1,2,4,16 -timeout 30m "$$p"; fi; done; \
	if [ $$found = 0 ]; then echo "make stress: there are no stress tests in $(PKG)" >&2; exit 2; fi
	KILLS=$(KILLS) SEED=$(SEED) go test -race -run TestKill -count 1 -v -timeout 30m ./test/stress

.PHONY: chaos
chaos: ## pipelines whose processes are killed, stopped and cut off, ROUNDS of them; SEED=n repeats the choices
	ROUNDS=$(ROUNDS) SEED=$(SEED) go test -count 1 -timeout 90m -v -run 'TestChaos$$' ./test/chaos

.PHONY: interop
interop: ## exchange with a real Flink, each way: takes Java 17 and Maven; ARGS="-flink 2.3.0 -channels 8"
	interop/flink/run $(ARGS)

.PHONY: interop-inspect
interop-inspect: build ## two Flink processes with weir inspect between them; ARGS="-flink 2.3.0 -frames FILE"
	interop/flink/run -inspect "$(CURDIR)/bin/weir" $(ARGS)

.PHONY: mutants
mutants: ## small breakages, each of which must turn its named tests red; ARGS="-run ledger", "-list", "-sample 8"
	go run ./fuzz/mutants $(ARGS)

.PHONY: cover
cover: ## statement coverage of each module
	@mkdir -p bin
	@for m in $(MODULES); do name=bin/cover-$${m//[.\/]/_}.out; \
	  (cd $$m && go test -timeout 10m -coverprofile "$(CURDIR)/$$name" ./... && go tool cover -func "$(CURDIR)/$$name" | tail -n 1); done

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
	@$(call each,go clean ./...)
