# Fairslice. "make help" lists the targets. Builds go to out/.

GO        ?= go
OUT       := out
VERSION   := 0.1.0
LDFLAGS   := -s -w -X main.version=$(VERSION)
# go-nvml's header is full of deprecation notes, and binds its symbols when they are first used, so
# noded must not be linked with "-z now".
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
LAZY      := -extldflags=-Wl,-z,lazy
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@latest

.DEFAULT_GOAL := help
.PHONY: help build setup demo test race lint fuzz bench check proto clean test-apps screenshots

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build everything into out/
	@mkdir -p $(OUT)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(OUT)/ ./bin/batchd ./bin/bcli ./bin/bsim ./bin/shepherd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(OUT)/enter ./nodes/apptainer/enter
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(OUT)/fgpu-smi ./bin/fgpu-smi
	$(GO) build -trimpath -ldflags '$(LDFLAGS) $(LAZY)' -o $(OUT)/noded ./bin/noded
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(OUT)/mkregion ./nodes/fgpu/tenant/region
	OUT=$(CURDIR)/$(OUT) sh nodes/fgpu/shim/build.sh
	OUT=$(CURDIR)/$(OUT)/simdriver sh nodes/fgpu/simdriver/build.sh
	OUT=$(CURDIR)/$(OUT) sh nodes/fgpu/tenant/build.sh
	@for c in $$($(OUT)/bcli --commands); do ln -sf bcli $(OUT)/$$c; done

setup: ## install what is missing (PostgreSQL, Apptainer, a C compiler); changes nothing when all is there
	@bash etc/setup.sh

demo: setup build ## run the worked examples on a cluster of this machine and show the result
	@bash etc/demo.sh

# Whole clusters are tested one after the other: on few cores they would only get in each other's way.
UNITS    = $$($(GO) list ./... | grep -v '^fairslice/test')
CLUSTERS = ./test/...
export FAIRSLICE_BIN := $(CURDIR)/$(OUT)
export FAIRSLICE_CRASH_BIN := $(CURDIR)/$(OUT)

test: setup build ## run all tests, on the real PostgreSQL, Apptainer, cgroups and terminals
	$(GO) test -p 2 -timeout 10m $(UNITS)
	$(GO) test -p 1 -timeout 15m $(CLUSTERS)

APPS ?= .
test-apps: setup build ## run the tests with real images and a browser (installs what is missing; builds images for minutes, once); APPS=PATTERN for some
	@bash etc/setup-apps.sh
	FAIRSLICE_APPS=1 $(GO) test -count=1 -timeout 60m -run '$(APPS)' ./test/apps

screenshots: setup build ## run the page's test in a browser and keep its pictures in docs/, for the README
	@bash etc/setup-apps.sh
	@rm -rf $(OUT)/screenshots && mkdir -p $(OUT)/screenshots docs
	FAIRSLICE_APPS=1 $(GO) test -count=1 -artifacts -outputdir $(CURDIR)/$(OUT)/screenshots -run '^TestPage$$' ./test/apps
	find $(OUT)/screenshots -name 'page-*.png' -exec cp {} docs/ \;

race: setup build ## run the tests under the race detector
	$(GO) test -race -p 2 -timeout 30m $(UNITS)
	$(GO) test -race -p 1 -timeout 30m $(CLUSTERS)

lint: ## run staticcheck
	$(GO) run $(STATICCHECK) ./...

check: ## format, vet, import rules and staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) test -run TestLayout .
	@$(MAKE) --no-print-directory lint

FUZZTIME ?= 10s
fuzz: ## run every fuzz test for FUZZTIME (10s)
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; \
	done

bench: setup build ## measure: rates, latencies and ratios on this machine
	$(GO) run ./test/bench $(OUT)
	$(GO) test -run '^$$' -bench 'Reports/jobs=1000000$$' -benchtime 1x ./store

proto: ## generate api/pb from the .proto files (needs protoc)
	GOBIN=$(CURDIR)/$(OUT) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1
	PATH=$(CURDIR)/$(OUT):$$PATH protoc -I api/proto --go_out=. --go_opt=module=fairslice \
	  --connect-go_out=. --connect-go_opt=module=fairslice api/proto/fairslice/v1/*.proto

clean: ## remove out/
	rm -rf $(OUT)
