#!/usr/bin/env bash
# Checks model files and exports with the Python packages that users read them with, in an environment of its own,
# build/python. PyTorch for Linux on amd64 comes with CUDA from PyPI: 6 GB in all. Where Debian's package python3-torch
# (60 MB) is installed, the environment takes that one; TORCH=pypi takes PyPI's in any case. With PYTHON=required a
# missing package is an error; else the check is skipped. Then PyTorch trains a model for each seed of SEEDS, and ecrec the same.
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

list=tools/python/requirements.txt
python=python3
sees=()
if [ "${TORCH:-}" != pypi ] && /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	list=tools/python/requirements-debian.txt
	python=/usr/bin/python3
	sees=(--system-site-packages)
fi
if ! cmp -s "$list" build/python/requirements.txt; then
	rm -rf build/python
	mkdir -p build
	"$python" -m venv "${sees[@]}" build/python || skip "$python cannot make an environment (Debian: python3-venv)"
	build/python/bin/pip install -q --disable-pip-version-check --retries 10 --timeout 60 -r "$list" ||
		skip "the packages of $list cannot be installed (Python 3.11 or newer and a package index are needed)"
	cp "$list" build/python/requirements.txt
fi
build/python/bin/python -c 'import torch; print("test-python: PyTorch", torch.__version__)'
go test -count=1 -timeout 10m ./cmd/ecrec -python "$PWD/build/python/bin/python" -run TestPython -v
rm -rf build/golden
# shellcheck disable=SC2086 # a list
build/python/bin/python tools/python/golden.py build/golden ${SEEDS:-1 2 3 4 5 6 7 8 9 10 11 12}
go test -count=1 -timeout 10m ./train -run 'TestGolden$' -golden "$PWD/build/golden"
