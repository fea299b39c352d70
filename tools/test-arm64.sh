#!/usr/bin/env bash
# Checks on this machine that arm64 computes the same bits as amd64, by qemu's emulation of its
# instructions: the tests of arithmetic, randomness, digests and kernels, and a short run with
# each dense optimizer, whose digest must equal that of the same run on this machine. Skipped without qemu.
set -euo pipefail
cd "$(dirname "$0")/.."

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || {
	echo "test-arm64: skipped: no qemu-aarch64 is installed (apt-get install qemu-user-static)"
	exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0

GOARCH=arm64 go test -short -vet=off -exec "$qemu" ./internal/f32 ./internal/rng ./internal/digest ./kernels
GOARCH=arm64 go test -short -vet=off -exec "$qemu" -run RebuildPaceIsTheSame ./train

go build -o "$work/here" ./cmd/ecrec
GOARCH=arm64 go build -o "$work/arm64" ./cmd/ecrec
cat >"$work/run.toml" <<-'CONFIG'
	[job]
	ranks = 3
	[data]
	format = "synthetic"
	[model]
	embedding_dim = 16
	tables = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 900]
	bottom_mlp = [32, 16]
	top_mlp = [32, 1]
	[train]
	global_batch = 64
	iterations = 10
CONFIG
digest() { # PROGRAM... SETTING
	"${@:1:$#-1}" train "$work/run.toml" --set job.out="$work/$RANDOM$RANDOM" --set "${@: -1}" | sed -n 's/.*\bdigest //p'
}
for optimizer in sgd momentum adagrad adam; do
	here=$(digest "$work/here" optimizer.dense.kind=$optimizer)
	there=$(digest "$qemu" "$work/arm64" optimizer.dense.kind=$optimizer)
	if [ -z "$here" ] || [ "$here" != "$there" ]; then
		echo "test-arm64: $optimizer: digest '$there' on arm64, '$here' here" >&2
		exit 1
	fi
	echo "test-arm64: $optimizer: digest $here on both"
done
