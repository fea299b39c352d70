#!/usr/bin/env bash
# Checks model files and exports with the Python packages that users read them with, in an environment of its own,
# build/python. PyTorch for Linux on amd64 comes with CUDA: 6 GB in all. With PYTHON=required a missing package is an
# error; else the check is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
	if [ "${PYTHON:-}" = required ]; then
		echo "test-python: $1" >&2
		exit 1
	fi
	echo "skipped: $1"
	exit 0
}

if ! cmp -s tools/python/requirements.txt build/python/requirements.txt; then
	rm -rf build/python
	mkdir -p build
	python3 -m venv build/python || skip "python3 cannot make an environment (Debian: python3-venv)"
	build/python/bin/pip install -q --disable-pip-version-check --retries 10 --timeout 60 -r tools/python/requirements.txt ||
		skip "the packages of tools/python/requirements.txt cannot be installed (python3 3.11 or newer and a package index are needed)"
	cp tools/python/requirements.txt build/python
fi
go test -count=1 -timeout 10m ./cmd/ecrec -python "$PWD/build/python/bin/python" -run TestPython -v
