# The one list of all commands of this repository; `make` shows it.

comma       := ,
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
NFPM        := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
FUZZTIME    ?= 10s
RUNS        ?= 2000
PKG         ?= ./...
MINUTES     ?= 5
# Packages whose goroutines meet: tested with the race detector, which needs cgo.
RACE := ./internal/env/... ./cmd/internal/exporter/... ./cmd/internal/report/... ./cmd/internal/cli/... ./launcher/... ./transport/... ./collectives/... ./data/... ./predict/... ./kernels/... ./lrpp/... ./shard/... ./store/... ./stream/... ./follow/... ./serve/... ./derive/... ./internal/uring/... ./internal/directio/... ./checkpoint/... ./train/...
# Packages that have other files without cgo.
CGO_OR_NOT := $(sort $(dir $(shell grep -rl --include='*.go' '^//go:build.*cgo' .)))
# Those packages, and packages that compute with them.
NO_CGO := $(CGO_OR_NOT) ./kernels ./train
# The other packages.
OTHERS = $(filter-out $(shell go list $(NO_CGO) ./cmd/ecrec),$(shell go list ./...))
HAVE_CGO := $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v $$(go env CC) >/dev/null && echo yes)

.DEFAULT_GOAL := help
.PHONY: help build build-mpi test test-times test-fresh test-python test-metrics test-kafka test-redis test-launchers test-cuda-host cuda-wheels test-arm64 gpu-build gpu-pack gpu-check lint sim bench figures bench-peers bench-serve bench-fuxictr quickstart man proto release test-release docs docs-serve fuzz-quick check-outside soak clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

build: ## build ./ecrec
	go build -o ecrec ./cmd/ecrec

build-mpi: ## build ./ecrec with the transport "mpi", for Open MPI; MPICH=1: for MPICH
	go build -tags mpi$(if $(MPICH),$(comma)mpich) -o ecrec ./cmd/ecrec

# TESTED=without-gcc: all tests have passed without a C compiler. Packages that compute with cgo, and the program, have all of theirs again.
test: ## vet and test everything: without cgo, and if there is a C compiler also with cgo and the race detector
ifeq ($(HAVE_CGO),yes)
	go vet ./...
ifeq ($(TESTED),without-gcc)
	go test -vet=off -timeout 20m $(NO_CGO) ./cmd/ecrec
	go test -vet=off -short $(OTHERS)
else
	go test -vet=off -timeout 20m ./...
endif
	GORACE=atexit_sleep_ms=0 go test -vet=off -race -short $(RACE)
	CGO_ENABLED=0 go vet $(CGO_OR_NOT)
	CGO_ENABLED=0 go build ./...
ifneq ($(TESTED),without-gcc)
	CGO_ENABLED=0 go test -vet=off -short $(NO_CGO)
endif
else
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go test -vet=off -timeout 20m ./...
endif

test-times: ## print the 30 slowest tests of PKG (./...), which are run one package after the other
	@go test -vet=off -p 1 -count=1 -v $(PKG) | awk '/^--- (PASS|FAIL)/ {n++; took[n] = substr($$4, 2) + 0 " s " $$3} \
		/^(ok  |FAIL)\t/ {for (; n > 0; n--) print took[n], $$2}' | sort -rn | head -30

test-fresh: ## run the commands of README's "Two commands" in a minimal Debian root, without and with gcc (16 minutes; needs root and mmdebstrap)
	@tools/test-fresh.sh

test-launchers: ## test jobs under Open MPI, MPICH and Slurm, as root and as a user, and the transport "mpi"; names those that are not installed
	@if pkg-config --exists ompi-c; then go test -count=1 -tags mpi ./transport -run TestRealMPI -v; else echo "skipped: no Open MPI to build with (libopenmpi-dev)"; fi
	@if pkg-config --exists mpich; then ECREC_TEST_MPIRUN=mpiexec.mpich go test -count=1 -tags mpi,mpich ./transport -run TestRealMPI -v; else echo "skipped: no MPICH to build with (libmpich-dev)"; fi
	go test -count=1 -timeout 20m -parallel 8 ./cmd/ecrec -launchers -run 'MPI|Launched' -v

test-python: ## train models beside PyTorch (SEEDS="1 2 3"); compare ecrec's scores with those of score.py, PyTorch (Debian's, or 6 GB from PyPI) and ONNX Runtime, installed in build/python
	@tools/test-python.sh

test-metrics: ## test metrics, alert rules and the Grafana board with the real Prometheus (Debian's package prometheus)
	go test -count=1 -timeout 5m ./cmd/ecrec -prometheus -run TestPrometheus -v

test-kafka: ## test streams with a real Kafka (needs Java 17; Maven fetches 43 MB), whose broker is killed too; KAFKA=required: a missing one is an error
	@if command -v java >/dev/null && tools/kafka-on-one-host.sh fetch; then go test -count=1 -timeout 20m ./cmd/ecrec -kafka -run 'Kafka|Replicas|Outage' -v; else echo "skipped: no Java and Maven (openjdk-17-jre-headless, maven)"; [ "$(KAFKA)" != required ]; fi

test-redis: ## test the example of a store, examples/redis, with a real Redis (Debian's package redis-server; needs Go 1.26 or a download of it)
	@if command -v redis-server >/dev/null; then go vet -C examples/redis . && go test -C examples/redis -count=1 -timeout 3m -v .; else echo "skipped: no redis-server (Debian's package redis-server)"; fi

# Compilers of CUDA C, as NVIDIA packs them for Python: one of CUDA 12 and one of 13.
NVRTC := nvidia-cuda-nvrtc-cu12==12.8.93 nvidia-cuda-nvrtc==13.0.88
# The headers, NCCL and cuBLAS.
NVIDIA := nvidia-cuda-runtime-cu12==12.8.90 nvidia-nccl-cu12==2.27.3 nvidia-cublas-cu12==12.8.4.1
# fetch unpacks a wheel in build/cuda, unless it is there. If it cannot be downloaded, fetch prints that, and tests that need it skip.
fetch = dir=build/cuda/$(1); [ -d $$dir ] || { python3 -m pip download -q --disable-pip-version-check --no-deps -d $$dir.tmp $(1) \
	&& python3 -m zipfile -e $$dir.tmp/*.whl $$dir || { rm -rf $$dir; echo "skipped: $(1) cannot be downloaded (python3, pip and a package index are needed)"; }; rm -rf $$dir.tmp; }

cuda-wheels:
	@$(foreach wheel,$(NVRTC) $(NVIDIA),$(call fetch,$(wheel));)

test-cuda-host: cuda-wheels ## test the CUDA backend without a GPU: kernels on the CPU against plain Go, training on a stand-in of a GPU, and all kernels compiled by NVRTC 12 and 13 (from PyPI) for sm_80, sm_90 and sm_100
	@command -v c++ >/dev/null || echo "skipped: there is no C++ compiler to build the stand-in of a GPU with"
	go test -count=1 -timeout 5m ./kernels ./collectives ./train -run 'CUDA|GPU|NCCL'
	@for lib in build/cuda/*/nvidia/*/lib/libnvrtc.so.1?; do [ ! -e $$lib ] || ECREC_CUDA_PATH=$$PWD/$$(dirname $$lib) go test -count=1 ./kernels -run CUDACompiles -v || exit 1; done
	ECREC_CUDA_HEADERS=$$(echo $$PWD/build/cuda/*cu12==*/nvidia/*/include | tr ' ' :) ECREC_CUDA_PATH=$$(echo $$PWD/build/cuda/*/nvidia/nccl/lib $$PWD/build/cuda/*/nvidia/cublas/lib | tr ' ' :) go test -count=1 ./internal/cuda -v

gpu-build: ## build the binaries of gpu-check: build/gpu
	@mkdir -p build/gpu
	go build -trimpath -ldflags='-s -w' -o build/gpu/ecrec ./cmd/ecrec
	for pkg in kernels collectives train; do go test -c -trimpath -ldflags='-s -w' -vet=off -o build/gpu/$$pkg.test ./$$pkg || exit 1; done

gpu-pack: gpu-build ## the same as one file, build/gpu.tar.xz: beside it, bench/gpu/check.sh needs neither Go nor build/gpu on the machine with the GPU
	tar -cf - -C build gpu/ecrec gpu/kernels.test gpu/collectives.test gpu/train.test | xz -T0 -3 >build/gpu.tar.xz

gpu-check: ## all checks that need a GPU, with the binaries of gpu-build (8 minutes; skips without a GPU)
	@[ -x build/gpu/ecrec ] || $(MAKE) gpu-build
	@bench/gpu/check.sh

lint: ## gofmt, vet, staticcheck, the rules of internal/lint, Kubernetes' schemas, and builds for the other platforms
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go test -count=1 ./internal/lint
	go test -C tools ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build ./...

test-arm64: ## test that arm64 computes the same bits, by qemu-user; skips without it
	tools/test-arm64.sh

sim: build ## run RUNS (2000) simulated clusters with faults, none of which may change a bit of a result; then broken ones, which must fail
	./ecrec sim --runs $(RUNS)
	go test -count=1 -timeout 30m ./sim -run TestMutations -mutations

bench: build ## run every benchmark; reports go to build/
	@mkdir -p build
	@for name in $$(./ecrec bench list | awk '{print $$1}'); do ./ecrec bench $$name --json build/bench-$$name.json || exit 1; done

figures: build ## measure and draw the figures of papers, quick runs: build/figures/index.html (10 minutes)
	rm -rf build/figures
	./ecrec bench report --out build/figures

bench-peers: build ## train with ecrec, TorchRec and FBGEMM by turns, and compare; bench/peers/README.md (PyTorch from PyPI, or PYTHON)
	@bench/peers/compare.sh

bench-serve: build ## single predictions of a served model, with hey as the client (fetched from a Go proxy; needs curl)
	@tools/serve-load.sh

# PyTorch and FuxiCTR, in an environment of their own, unless PYTHON names a Python that has them.
build/fuxictr: bench/fuxictr/requirements.txt
	python3 -m venv build/fuxictr
	build/fuxictr/bin/pip install -q --disable-pip-version-check -r bench/fuxictr/requirements.txt
	build/fuxictr/bin/pip install -q --disable-pip-version-check --no-deps fuxictr==2.3.10
	@touch build/fuxictr

bench-fuxictr: build $(if $(PYTHON),,build/fuxictr) ## compare losses, ReLUs, AUC and speed with models of FuxiCTR's layers on PyTorch (PyTorch from PyPI, or PYTHON; some hours); RUN="losses": a part
	@mkdir -p build
	$(or $(PYTHON),build/fuxictr/bin/python) bench/fuxictr/compare.py --json build/bench-fuxictr.json $(RUN)

quickstart: build ## train a small DLRM on the Adult census data with 5 ranks; prints AUC and digest
	./ecrec train examples/quickstart.toml --overwrite

man: build ## write the man page: build/man/ecrec.1
	@mkdir -p build/man
	./ecrec man >build/man/ecrec.1

proto: ## generate the Go code of serve/servepb from its .proto (needs python3 and PyPI)
	tools/proto.sh

# mkdocs and its theme, in an environment of their own.
MKDOCS := NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs
build/docs: tools/docs/requirements.txt
	python3 -m venv build/docs
	build/docs/bin/pip install -q --disable-pip-version-check -r tools/docs/requirements.txt
	@touch build/docs

docs: build/docs ## build the documentation as a site: build/site; a broken link is an error (needs python3 and PyPI)
	go test ./config -run Reference -update
	$(MKDOCS) build --strict

docs-serve: build/docs ## show the documentation on http://localhost:8000, rebuilt when a page changes
	$(MKDOCS) serve

release: ## make the files of a release of the last commit: build/release (binaries, deb, rpm, source archive, SBOM, sums)
	NFPM=$(NFPM) tools/release.sh

test-release: release ## make a release; check that its source builds offline to the same bytes, and its deb works in a minimal Debian root
	tools/test-release.sh

fuzz-quick: ## run every fuzz target for FUZZTIME (10s)
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

check-outside: build ## check ./ecrec by a program that shares no code with it, for MINUTES (5): random jobs and faults, SEED=N repeats (needs python3)
	@if command -v python3 >/dev/null; then python3 tools/checker --ecrec ./ecrec --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)); else echo "skipped: no python3"; fi

soak: ## lose ranks in every way and at every point, 200 of them at random moments, and 20 of a build with -race; kill a process that saves checkpoints at 50 random moments; kill broker, trainer and follower 50 times each, and stop a broker for two minutes; check the program from outside for two hours, and find planted defects; train 100 models beside PyTorch; test with the race detector what make test draws from
	go test -count=1 -timeout 60m -run '^Test(Killed|StoppedRanks|LostNodes|Unsurvivable)' ./cmd/ecrec -soak -kills 200 -v
	go test -count=1 -timeout 60m -run '^TestKilled(Ranks|WhileRebuilding)' ./cmd/ecrec -build race -kills 20 -v
	go test -count=1 -run 'TestCrashWhileSaving' ./checkpoint -crashes 50 -v
	go test -count=1 -timeout 60m -run 'TestBurstsSearch' ./data -search -v
	@if command -v java >/dev/null && tools/kafka-on-one-host.sh fetch; then go test -count=1 -timeout 120m ./cmd/ecrec -kafka -soak -run 'Kafka|Replicas|Outage' -v; else echo "skipped: no Java and Maven (openjdk-17-jre-headless, maven)"; fi
	$(MAKE) check-outside MINUTES=120
	tools/checker/planted.sh
	$(MAKE) test-python SEEDS="$$(seq -s ' ' 100)"
	GORACE=atexit_sleep_ms=0 go test -count=1 -vet=off -race -timeout 60m $(RACE)

clean: ## remove the outputs of make and the examples
	rm -rf ecrec build runs
