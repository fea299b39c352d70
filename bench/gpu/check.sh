#!/usr/bin/env bash
# The checks that need a GPU, within 8 minutes: run from the repository's root, with the names of some
# checks, or for all of them with none. It needs the binaries of `make gpu-build` in build/gpu, or those of
# `make gpu-pack` in build/gpu.tar.xz, the NVIDIA driver, NVRTC and cuBLAS; neither Go nor a network. NCCL,
# compute-sanitizer and the PyTorch of PYTHON (default python3) are used if they are installed. A check that is
# running after LIMIT seconds (default 480) fails, and so do those that have not begun.
#
# Output and reports are in the folder build/gpu/results. After each check, and at the end, they are packed as
# results.tar.gz in the folder OUT (default build/gpu), so that a run that is cut leaves those before the cut.
#
#	bench/gpu/check.sh
#	bench/gpu/check.sh kernels golden bench-train
set -uo pipefail
export bin=build/gpu
out=$bin/results
archive=${OUT:-$bin}/results.tar.gz
python=${PYTHON:-python3}
limit=${LIMIT:-480}
names=(kernels golden digests-of-ranks nccl digests recovery recovery-opened bench-kernels bench-train bench-train-exact-tc bench-train-cublas
	bench-train-cublas-tf32 bench-dcnv2 bench-dcnv2-exact-tc bench-dcnv2-cublas-tf32 bench-torch bench-torch-tf32 bench-overhead memory)
for name; do
	if [[ " ${names[*]} " != *" $name "* ]]; then
		echo "gpu-check: there is no check $name; there are ${names[*]}" >&2
		exit 2
	fi
done
selected=" ${*:-${names[*]}} "

if [ ! -x "$bin/ecrec" ] && [ -f build/gpu.tar.xz ]; then
	tar -xJf build/gpu.tar.xz -C build 2>/dev/null || python3 -m tarfile -e build/gpu.tar.xz build # not every machine has xz
fi
if [ ! -x "$bin/ecrec" ]; then
	echo "gpu-check: $bin/ecrec is not there; run make gpu-build first" >&2
	exit 1
fi
rm -rf "$out" # of the run before
mkdir -p "$out" "${archive%/*}"
pack() { tar -czf "$archive.new" -C "$bin" results && mv "$archive.new" "$archive"; }
trap pack EXIT
running= # the process of the check that is running
trap '[ -z "$running" ] || kill "$running"; exit 143' TERM INT
# Compiled kernels are kept here, where the tests find them too. The call of doctor below compiles them, so that the
# processes of a job need not do so at once.
export XDG_CACHE_HOME=${TMPDIR:-/tmp}/ecrec-gpu-cache

report=$(timeout 120 "$bin/ecrec" doctor)
if [ $? -eq 124 ]; then
	echo "gpu-check: FAILED: ecrec doctor takes longer than 120 s"
	exit 1
fi
cat >"$out/doctor.txt" <<<"$report"
found=$(sed -n 's/^  job.device *//p' <<<"$report")
case "$found" in
*cuda*) echo "gpu-check: $found" | tee "$out/device.txt" ;;
*)
	if grep -q '^  gpu0 ' <<<"$report"; then
		echo "gpu-check: FAILED: there is a GPU, but ecrec cannot use it ($found)"
		exit 1
	fi
	echo "gpu-check: skipped: no GPU that ecrec can use ($found)"
	exit 0
	;;
esac
timeout 30 nvidia-smi >"$out/nvidia-smi.txt" 2>&1

failed=()
selects() { [[ "$selected" == *" $1 "* ]]; }
# check NAME COMMAND...: runs a check if it is selected, keeps its output, and continues after a failure.
check() {
	local name=$1 began=$SECONDS code=0
	shift
	selects "$name" || return 0
	if [ $SECONDS -ge "$limit" ]; then
		echo "gpu-check: $name: FAILED: no time is left"
		failed+=("$name")
		return 0
	fi
	timeout --kill-after 5 $((limit - SECONDS)) bash -c '"$@"' check "$@" >"$out/$name.txt" 2>&1 &
	running=$!
	wait $running || code=$?
	running=
	if [ $code -eq 0 ]; then
		echo "gpu-check: $name: passed in $((SECONDS - began)) s"
	else
		echo "gpu-check: $name: FAILED (code $code) in $((SECONDS - began)) s; the end of $out/$name.txt:"
		tail -n 15 "$out/$name.txt"
		failed+=("$name")
	fi
	pack
}
# skip NAME REASON: reports that a selected check is not run.
skip() { ! selects "$1" || echo "gpu-check: $1: skipped: $2"; }
# tests PACKAGE PATTERN: the package's tests on the GPU, in its own folder, where its data is.
tests() { (cd "$1" && ECREC_TEST_GPU=1 "$OLDPWD/$bin/$1.test" -test.run "$2" -test.v -test.timeout 3m); }
digest() { sed -n 's/^ *"digest": "\(.*\)".*/\1/p' "$1/summary.json"; }

# digests: one digest for repeats, cache modes and lost ranks, on the GPU and on the CPU.
digests() {
	local dir want got
	dir=$(mktemp -d)
	run() { "$bin/ecrec" train examples/quickstart.toml --np 5 --overwrite --set train.epochs=2 --set job.out="$dir/run" "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; return 1; }; }
	run --device cpu || return 1
	want=$(digest "$dir/run")
	echo "cpu: $want"
	while read -r -a more; do
		run --device cuda "${more[@]}" || return 1
		got=$(digest "$dir/run")
		echo "cuda ${more[*]}: $got"
		[ "$got" = "$want" ] || return 1
	done <<-'END'
		--set cache.mode=planned
		--set cache.mode=planned
		--set cache.mode=planned
		--set cache.mode=none
		--set cache.mode=lrpp
		--chaos kill:0@60
		--chaos kill:2@120
		--chaos kill:4@30 --chaos kill:1@150
	END
}

# recovery: times of recoveries by standbys, which open the GPU after the loss.
recovery() {
	local dir
	dir=$(mktemp -d)
	"$bin/ecrec" train examples/quickstart.toml --np 5 --overwrite --set job.out="$dir/run" --device cuda --chaos kill:2@700 --chaos kill:3@1000 --chaos kill:1@1300 || return 1
	sed -n 's/.*"event":"recovered".*"resume_ms":\([0-9.]*\).*/recovered in \1 ms/p' "$dir/run/events.jsonl"
	grep -E '"(detect_ms|start_ms|join_ms|ready_ms|resume_ms)":' "$dir/run/summary.json" # of each recovery, its parts
}

export -f tests digest digests recovery

# measure NAME REPORT SETTINGS...: a measurement of training.
measure() {
	local name=$1 report=$2
	shift 2
	check "$name" "$bin/ecrec" bench train device=cuda batch=65536 "$@" --json "$out/$report.json"
}

check kernels tests kernels 'CUDA(Agrees|Preconditions|LongPreconditions|RefusesRules|Pieces)|CUBLAS|ColumnSums'
check golden tests train '^TestGolden$'
check digests-of-ranks tests train 'OnGPUs'
check nccl tests collectives 'NCCL'
check digests digests
check recovery recovery
check recovery-opened env ECREC_STANDBY_GPU=1 bash -c recovery # by standbys that have the GPU open by then
check bench-kernels "$bin/ecrec" bench kernels device=cuda --json "$out/kernels.json"
measure bench-train train model=mlperf steps=20 --repeats 3
measure bench-train-exact-tc train-exact-tc model=mlperf steps=20 blas=exact-tc --repeats 3
measure bench-train-cublas train-cublas model=mlperf steps=20 blas=cublas --repeats 3
measure bench-train-cublas-tf32 train-cublas-tf32 model=mlperf steps=20 blas=cublas-tf32 --repeats 3
measure bench-dcnv2 dcnv2 model=dcnv2 steps=10 --repeats 2
measure bench-dcnv2-exact-tc dcnv2-exact-tc model=dcnv2 steps=10 blas=exact-tc --repeats 2
measure bench-dcnv2-cublas-tf32 dcnv2-cublas-tf32 model=dcnv2 steps=10 blas=cublas-tf32 --repeats 2
if ! selects bench-torch && ! selects bench-torch-tf32; then
	: # PyTorch takes seconds to start
elif timeout 60 "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
	check bench-torch "$python" bench/peers/dlrm_torch.py --batch 65536 --steps 20
	check bench-torch-tf32 "$python" bench/peers/dlrm_torch.py --batch 65536 --steps 20 --tf32
else
	skip bench-torch "no PyTorch of $python that sees the GPU"
	skip bench-torch-tf32 "no PyTorch of $python that sees the GPU"
fi
check bench-overhead "$bin/ecrec" bench overhead device=cuda model=dim48 every=10 checkpoints=no steps=20 batch=16384 --repeats 3 --json "$out/overhead.json"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
if [ -n "$sanitizer" ]; then
	check memory env ECREC_TEST_GPU=1 "$sanitizer" --error-exitcode 9 "$bin/kernels.test" -test.run 'CUDA(Agrees|Preconditions|LongPreconditions)' -test.short -test.timeout 3m
else
	skip memory "no compute-sanitizer on this machine"
fi

bench/gpu/bars.sh "$out" | tee "$out/bars.txt" || failed+=(bars)

if [ ${#failed[@]} -gt 0 ]; then
	echo "gpu-check: FAILED: ${failed[*]}"
	exit 1
fi
echo "gpu-check: all passed in $SECONDS s; results are in $out and $archive"
