#!/usr/bin/env bash
# Collectives between two network namespaces, as between two hosts: a veth pair whose ends are shaped to a rate.
#
#   netns-bench.sh ECREC [KEY=VALUE...]      settings of 'ecrec bench collectives' beside transport=tcp
#
# Runs 'ecrec bench collectives transport=tcp' with two processes, one in each namespace, at each rate, and then on loopback.
# Each table has the time of the same bytes over a bare connection in the same turns.
#
# Needs: root, iproute2 (ip, tc), a kernel with veth and tbf. Exit code 3: the kernel refused one of them; a line has which one.
# Environment: RATES ("10gbit 25gbit")   REPEATS (5)   LIMIT (300, seconds of a run)
# The link has no delay. For one: ecrec bench ideal --link BANDWIDTH,LATENCY. Removes its namespaces, and ends no process but its own.
set -euo pipefail

RATES=${RATES:-10gbit 25gbit}
REPEATS=${REPEATS:-5}
LIMIT=${LIMIT:-300}
PORT=29517

die() { echo "netns-bench: $2" >&2; exit "$1"; }

[ $# -ge 1 ] || die 2 "usage: netns-bench.sh ECREC [KEY=VALUE...]"
ecrec=$(realpath "$1"); shift
[ -x "$ecrec" ] || die 2 "$ecrec is not a program"
[ "$(id -u)" = 0 ] || die 2 "network namespaces need root"
for tool in ip tc; do command -v "$tool" >/dev/null || die 2 "no $tool: apt-get install iproute2"; done
[ $# -gt 0 ] || set -- operations=broadcast,all_to_all_v,all_reduce sizes=64K,1M,16M

for rate in $RATES; do [[ $rate =~ ^[0-9]+[mg]bit$ ]] || die 2 "RATES: $rate is not a rate such as 10gbit"; done

work=$(mktemp -d)
near=ecrec-a-$$ far=ecrec-b-$$
other=
cleanup() {
  [ -z "$other" ] || kill "$other" 2>/dev/null || true
  ip netns del "$near" 2>/dev/null || true # and the veth pair with it
  ip netns del "$far" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ip netns add "$near" 2>"$work/why" && ip netns add "$far" 2>"$work/why" || die 3 "the kernel refuses network namespaces: $(head -1 "$work/why")"
ip link add a0 netns "$near" type veth peer name b0 netns "$far" 2>"$work/why" || die 3 "the kernel refuses veth: $(head -1 "$work/why")"
ip -n "$near" addr add 10.213.0.1/24 dev a0
ip -n "$far" addr add 10.213.0.2/24 dev b0
for end in "$near a0" "$far b0"; do
  read -r space device <<<"$end"
  ip -n "$space" link set lo up
  ip -n "$space" link set "$device" up
done

# shape sets the rate of both ends. The burst is above what 25 Gb/s sends in 1 ms, and the queue holds 10 ms.
shape() {
  local space device
  for end in "$near a0" "$far b0"; do
    read -r space device <<<"$end"
    tc -n "$space" qdisc replace dev "$device" root tbf rate "$1" burst 4mb latency 10ms 2>"$work/why" ||
      die 3 "the kernel refuses tbf: $(head -1 "$work/why")"
  done
}

# start runs one process of the benchmark in a namespace, with a host name of its own.
start() {
  local space=$1 rank=$2 name=$3
  shift 3
  ip netns exec "$space" env RANK="$rank" WORLD_SIZE=2 ECREC_SECRET="$secret" ECREC_NAME="$name" timeout "$LIMIT" \
    unshare --uts sh -c 'hostname "$ECREC_NAME" && exec "$@"' sh "$ecrec" bench collectives --rdzv "10.213.0.1:$PORT" --repeats "$REPEATS" \
    transport=tcp "$@"
}

secret=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
for rate in $RATES; do
  shape "$rate"
  echo "== between namespaces, tbf $rate"
  start "$far" 1 ecrec-far "$@" >"$work/far" 2>&1 &
  other=$!
  start "$near" 0 ecrec-near "$@" || die 1 "the benchmark failed; the other process printed: $(tail -3 "$work/far")"
  wait "$other" || die 1 "the other process failed: $(tail -3 "$work/far")"
  other=
done
echo "== loopback"
timeout "$LIMIT" "$ecrec" bench collectives --np 2 --repeats "$REPEATS" transport=tcp "$@"
