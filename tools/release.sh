#!/usr/bin/env bash
# Makes the files of a release of the last commit in build/release:
#
#   ecrec-V-source.tar.gz      the commit with its Go modules in vendor/; builds offline
#   ecrec-V-linux-amd64        one file without C libraries
#   ecrec-V-linux-arm64        the same for arm64
#   ecrec-V-linux-amd64-cgo    opens OpenBLAS, CUDA, NCCL and NVML at run time; needs glibc
#   ecrec_V_amd64.deb, ecrec-V-1.x86_64.rpm: the last one, man page, completions, examples, docs
#   ecrec-V.cdx.json           the modules linked into it (CycloneDX)
#   SHA256SUMS
#
# V is the content of the file VERSION. All files are built offline from the unpacked source
# archive: with the same Go, equal commits give equal static binaries. A tree with uncommitted
# changes is refused; DIRTY=yes ignores the changes instead. NFPM names the nfpm to run.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "release: $1" >&2
	exit 1
}
[ "$(go env GOOS)/$(go env GOARCH)" = linux/amd64 ] || fail "this machine is $(go env GOOS)/$(go env GOARCH); the package with cgo is built on linux/amd64"
for tool in gcc objdump gzip git; do
	command -v "$tool" >/dev/null || fail "$tool is not installed"
done
[ -z "$(git status --porcelain)" ] || [ "${DIRTY:-}" = yes ] || fail "the tree has uncommitted changes; commit them, or leave them out with DIRTY=yes"
[ -n "${NFPM:-}" ] || fail "NFPM is not set; call make release"

version=$(git show HEAD:VERSION)
top=$PWD out=$PWD/build/release source=ecrec-$version
made=$(git show -s --format=%ct HEAD)
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The source archive: the same bytes for the same commit.
git archive --prefix="$source/" HEAD | tar -x -C "$work"
cd "$work/$source"
go mod vendor
tar --create --sort=name --mtime="@$made" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w --format=gnu -C "$work" "$source" |
	gzip -n9 >"$out/$source-source.tar.gz"

# The binaries, each with the same flags.
build() { # NAME, and the environment
	echo "release: building $1"
	env GOFLAGS=-mod=vendor GOPROXY=off "${@:2}" go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/$source-$1" ./cmd/ecrec
}
build linux-amd64 CGO_ENABLED=0 GOARCH=amd64 GOAMD64=v1
build linux-arm64 CGO_ENABLED=0 GOARCH=arm64
build linux-amd64-cgo CGO_ENABLED=1 GOARCH=amd64 GOAMD64=v1

# The files of packages other than the binary.
ecrec=$out/$source-linux-amd64-cgo stage=$work/stage
mkdir -p "$stage/doc"
cp "$ecrec" "$stage/ecrec"
"$ecrec" man | gzip -n9 >"$stage/ecrec.1.gz"
for shell in bash zsh fish; do
	"$ecrec" completion $shell >"$stage/ecrec.$shell"
done
cp -r README.md CHANGELOG.md SECURITY.md docs examples "$stage/doc/"
{
	echo "ecrec is licensed under Apache-2.0:"
	cat LICENSE
	go version -m "$ecrec" | awk '$1 == "dep" {print $2, $3}' | while read -r module release; do
		printf '\n--- %s %s, linked into ecrec:\n\n' "$module" "$release"
		find "vendor/$module" -maxdepth 1 -iname 'LICEN[CS]E*' -exec cat {} +
	done
} >"$stage/copyright"
chmod -R u+rwX,go+rX-w "$stage"

echo "release: packages and bill of materials"
glibc=$(objdump -T "$ecrec" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
export STAGE=$stage VERSION=$version ARCH=amd64 SOURCE_DATE_EPOCH=$made GLIBC=${glibc#GLIBC_}
cd "$top"
for packager in deb rpm; do
	go run "$NFPM" package --config packaging/nfpm.yaml --packager $packager --target "$out"
done
go run -C tools ./sbom "$ecrec" "$version" >"$out/$source.cdx.json"
cd "$out"
sha256sum ecrec* >SHA256SUMS
ls -l
