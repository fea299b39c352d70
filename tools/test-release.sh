#!/usr/bin/env bash
# Checks the files of build/release, which make release made of the last commit:
#
#   - their sums hold, and the static binaries need no library;
#   - the source archive builds offline, with nothing in the caches, to the same bytes;
#   - the deb installs in a minimal Debian root, where ecrec version, man ecrec and the
#     quickstart of the installed examples work for an ordinary user, with the same digest as
#     the static binary on this machine.
#
# The last part needs root and mmdebstrap. Without them it is skipped, or fails if
# FRESH=required is set.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "test-release: $1" >&2
	exit 1
}
version=$(cat VERSION) commit=$(git rev-parse HEAD) release=$PWD/build/release
[ -e "$release/SHA256SUMS" ] || fail "build/release is not there; run make release first"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/test-release.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf --one-file-system "$work"' EXIT

(cd "$release" && sha256sum --quiet --check SHA256SUMS)
for arch in amd64 arm64; do
	! readelf -d "$release/ecrec-$version-linux-$arch" | grep NEEDED || fail "the static binary for $arch needs libraries"
done
[[ $("$release/ecrec-$version-linux-amd64" version) == *"$commit"* ]] || fail "the binary does not name commit $commit: make release again"
echo "test-release: sums hold, binaries are static and name their commit"

tar -x -C "$work" -f "$release/ecrec-$version-source.tar.gz"
(
	cd "$work/ecrec-$version"
	GOFLAGS=-mod=vendor GOPROXY=off GOMODCACHE=$work/modules GOCACHE=$work/cache CGO_ENABLED=0 GOAMD64=v1 \
		go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$work/ecrec" ./cmd/ecrec
)
cmp "$work/ecrec" "$release/ecrec-$version-linux-amd64" || fail "the source archive builds to other bytes"
echo "test-release: the source archive builds offline, to the same bytes"

digest() { sed -n 's/.*\bdigest //p' "$1" | tail -1; }
"$work/ecrec" train examples/quickstart.toml --set job.out="$work/quickstart" >"$work/here.log"

if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
	[ "${FRESH:-}" != required ] || fail "the deb needs root and mmdebstrap to be tested"
	echo "test-release: skipped: no root, or no mmdebstrap; the deb was not tested"
	exit 0
fi
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo stable)
cp "$release/ecrec_${version}_amd64.deb" "$work/ecrec.deb"
cat >"$work/user.sh" <<-'USER'
	set -eu
	ecrec version
	man ecrec | grep -q 'ecrec train'
	test -e /usr/share/bash-completion/completions/ecrec
	ecrec train /usr/share/doc/ecrec/examples/quickstart.toml --set job.out="$HOME/quickstart" --np 2
USER
mmdebstrap --quiet --variant=minbase --include=man-db \
	--customize-hook="copy-in $work/ecrec.deb $work/user.sh /tmp" \
	--customize-hook='chroot "$1" dpkg --install /tmp/ecrec.deb && chroot "$1" useradd --create-home user' \
	--customize-hook='chroot --userspec=user:user "$1" env -i HOME=/home/user LANG=C.UTF-8 PATH=/usr/bin:/bin sh /tmp/user.sh' \
	"$suite" /dev/null 2>&1 | tee "$work/there.log"
[ -n "$(digest "$work/there.log")" ] && [ "$(digest "$work/there.log")" = "$(digest "$work/here.log")" ] ||
	fail "the digests differ: '$(digest "$work/there.log")' where the deb is installed, '$(digest "$work/here.log")' here"
echo "test-release: the deb works on a machine with nothing else"
