#!/bin/sh
# Generates the Go code of serve/servepb from its .proto, with the versions of go.mod. It needs Python 3 with pip, for the compiler.
set -eu
cd "$(dirname "$0")/.."
to=build/proto
mkdir -p "$to"
[ -x "$to/venv/bin/python" ] || python3 -m venv "$to/venv"
"$to/venv/bin/pip" install -q 'grpcio-tools==1.76.0'
version() { go list -m -f '{{.Version}}' "$1"; }
GOBIN="$PWD/$to" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$(version google.golang.org/protobuf)"
GOBIN="$PWD/$to" go install "connectrpc.com/connect/cmd/protoc-gen-connect-go@$(version connectrpc.com/connect)"
PATH="$PWD/$to:$PATH" "$to/venv/bin/python" -m grpc_tools.protoc -I serve/servepb --go_out=serve/servepb --go_opt=paths=source_relative \
	--connect-go_out=serve/servepb --connect-go_opt=paths=source_relative,package_suffix= serve.proto
