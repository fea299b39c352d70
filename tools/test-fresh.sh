#!/usr/bin/env bash
# Runs the commands of README.md's section "Two commands" on a machine where nothing is
# installed: a minimal Debian root with ca-certificates, git, make and this machine's Go, once
# without a C compiler and once with gcc (and g++). They run as an ordinary user, with a network card
# without a network; Go modules come from a read-only module proxy, this machine's module cache.
#
# It needs root, mmdebstrap, ip and unshare. Without them it is skipped with a message, or
# fails where FRESH=required is set. All mounts are in a mount namespace of their own, so
# that none remains however the script ends. ROUNDS names the rounds to run; TESTED the rounds that
# run "make test" beside the other commands.
set -euo pipefail
cd "$(dirname "$0")/.."

cannot() {
	echo "test-fresh: $1"
	[ "${FRESH:-}" != required ] || exit 1
	echo "test-fresh: skipped: a fresh machine was not tested"
	exit 0
}
[ "$(id -u)" = 0 ] || cannot "making a Debian root needs root"
for tool in mmdebstrap ip unshare; do
	command -v "$tool" >/dev/null || cannot "$tool is not installed (apt-get install mmdebstrap iproute2 util-linux)"
done
unshare --mount --net true || cannot "this machine allows no namespaces of their own (a container without CAP_SYS_ADMIN?)"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/test-fresh.XXXXXX")
job= # the process that runs in the root
trap 'if [ -n "$job" ]; then kill -KILL "$job" 2>/dev/null || true; fi; wait; rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
root=$work/root
home=$root/home/user
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo stable)

# inside COMMAND: runs a script as the user of the root, in namespaces of its own.
inside() {
	unshare --mount --net --uts --ipc --pid --fork --kill-child bash -euc '
		root=$1 goroot=$2 modules=$3
		hostname fresh
		ip link set lo up
		ip link add eth0 type veth peer name nowhere
		ip address add 192.0.2.2/24 dev eth0
		ip link set eth0 up
		ip link set nowhere up
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount -t tmpfs -o mode=755 dev "$root/dev"
		for device in null zero full random urandom tty; do
			: >"$root/dev/$device"
			mount --bind "/dev/$device" "$root/dev/$device"
		done
		mount --bind /dev/null "$root/etc/resolv.conf"
		mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/usr/local/go" "$root/srv/modules"
		mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
		# Compilers write much to /tmp at once; see .ci/run.
		if [ "$(awk "/^MemAvailable:/ {print \$2}" /proc/meminfo)" -gt 14000000 ]; then
			mount -t tmpfs -o mode=1777,size=8g tmp "$root/tmp"
		fi
		mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
		ln -s pts/ptmx "$root/dev/ptmx"
		ln -s /proc/self/fd "$root/dev/fd"
		mount --bind -o ro "$goroot" "$root/usr/local/go"
		mount --bind -o ro "$modules" "$root/srv/modules"
		chroot --userspec=user:user "$root" env -i HOME=/home/user USER=user LANG=C.UTF-8 \
			PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin \
			GOTOOLCHAIN=local GOPROXY=file:///srv/modules bash -euc "cd ~/ecrec; $4" </dev/null
	' inside "$root" "$(go env GOROOT)" "$(go env GOMODCACHE)/cache/download" "$1" &
	job=$! # waited for, so that a signal ends the script at once
	wait "$job"
	job=
}

# checkout copies this working tree for the user, like a clone, with nothing built.
checkout() {
	rm -rf "$home/ecrec"
	git clone -q . "$home/ecrec"
	git ls-files -z --deleted | (cd "$home/ecrec" && xargs -0 -r rm -f)
	{ git diff -z --name-only --diff-filter=d HEAD && git ls-files -z --others --exclude-standard; } |
		tar -c --null -T - | tar -x -C "$home/ecrec"
	chown -R 1000:1000 "$home/ecrec"
}

# round NAME: builds and installs without any output, then runs README's commands.
round() {
	local began=$SECONDS run
	checkout
	case " ${TESTED:-without-gcc with-gcc} " in
	*" $1 "*) run=$commands ;;
	*) run=${commands//make test/} ;;
	esac
	inside 'go mod download; go clean -testcache
		output=$({ go build -o /tmp/ecrec ./cmd/ecrec && go install ./cmd/ecrec; } 2>&1) || { echo "$output"; exit 1; }
		[ -z "$output" ] || { echo "test-fresh: go build and go install print:"; echo "$output"; exit 1; }
		~/go/bin/ecrec --help >/dev/null'
	inside "set -o pipefail; {
		set -x
		$run
	} 2>&1 | tee ~/log"
	if [ "$(sed -n 's/.*\bdigest //p' "$home/log" | sort -u | wc -l)" != 1 ]; then
		echo "test-fresh: $1: the runs of README.md end with different digests, or none"
		exit 1
	fi
	echo "test-fresh: $1: passed in $((SECONDS - began)) s"
}

commands=$(awk '/^## /{here = /^## Two commands/} /^```/{code = here && /^```sh/; next} code' README.md)
for part in "make quickstart" "--chaos" "make test"; do
	case "$commands" in
	*"$part"*) ;;
	*) echo "test-fresh: README.md's section \"Two commands\" lacks $part"; exit 1 ;;
	esac
done

go mod download
echo "test-fresh: making a root of Debian $suite"
mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,make "$suite" "$root"
printf '127.0.0.1 localhost\n127.0.1.1 fresh\n' >"$root/etc/hosts" # as Debian's installer has it
chroot "$root" useradd --uid 1000 --create-home --shell /bin/bash user
for name in ${ROUNDS:-without-gcc with-gcc}; do
	if [ "$name" = with-gcc ]; then
		chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c \
			'apt-get update && apt-get install -y --no-install-recommends g++' >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
	fi
	round "$name"
done
