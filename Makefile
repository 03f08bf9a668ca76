# Everything here works with Go, make, git and, for an engine, Debian's apt.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The checkout may belong to another user than the one who builds.
VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null)
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

GO      ?= go
LDFLAGS := -s -w -X github.com/pinfold-dev/pinfold/cmd/pinfold/internal/cli.buildVersion=$(VERSION)

# What `make test` and `make bench` hand on, such as
#   make test PKGS=./images ARGS='-run Offline -v'
PKGS ?= ./...
ARGS ?=

.PHONY: help
help: ## show this
	@echo 'make TARGET, where TARGET is one of:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: guest ## build bin/pinfold, with the guests in it
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/pinfold ./cmd/pinfold

.PHONY: guest
guest: ## build the guest for each architecture
	$(GO) generate ./internal/guest/guestbin

.PHONY: engine
engine: ## get a container engine if none answers (Debian, Ubuntu: as root)
	@hack/engine.sh

.PHONY: images
images: build engine ## make sure that the engine has our images
	@hack/images.sh

.PHONY: demo
demo: build ## run untrusted-looking commands in a container and watch
	@hack/demo.sh

.PHONY: test
test: build ## run all tests, with an engine if one can be had
	@hack/test.sh $(ARGS) $(PKGS)

.PHONY: lint
lint: guest ## run the linters
	@hack/lint.sh

.PHONY: bench
bench: images ## measure against the engine, the docker command and the host
	$(GO) run ./internal/bench -o bench.json $(ARGS)

.PHONY: clean
clean: ## remove what was built here; images and caches stay
	rm -rf bin bench.json internal/guest/guestbin/*.gz
