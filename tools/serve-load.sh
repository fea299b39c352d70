#!/usr/bin/env bash
# Measures single predictions of `ecrec follow --serve` with hey (github.com/rakyll/hey) as the client: trainer, follower and client are
# processes of their own. It prints for each of TURNS turns the replies per second and the latencies of
#   ok            GET /healthz, the smallest reply of the same server
#   predict       POST /v1/predict, one row of the quickstart's model
#   predict, half the same at half of that rate
# SECONDS_EACH is the length of each, and CONNS the number of connections.
set -euo pipefail
cd "$(dirname "$0")/.."
turns=${TURNS:-5} seconds=${SECONDS_EACH:-5} conns=${CONNS:-16} hey=${HEY:-build/bin/hey}

[ -x ./ecrec ] || { echo "serve-load: no ./ecrec: run make build" >&2; exit 1; }
[ -x "$hey" ] || GOBIN=$PWD/build/bin go install github.com/rakyll/hey@v0.1.4
dir=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
./ecrec train examples/quickstart.toml --set job.out="$dir/run" --set stream.to="file:$dir/topic" --set job.digests=true >"$dir/train.log" 2>&1 ||
	{ cat "$dir/train.log" >&2; exit 1; }
at=127.0.0.1:$((20000 + $$ % 20000))
./ecrec follow "file:$dir/topic" --to "$dir/model" --serve "$at" >"$dir/follow.log" 2>&1 &
server=$!
tries=0
until curl -sf -o /dev/null "http://$at/readyz"; do
	if ! kill -0 $server 2>/dev/null || [ $((tries += 1)) -gt 300 ]; then
		echo "serve-load: the follower serves no model:" >&2
		cat "$dir/follow.log" >&2
		exit 1
	fi
	sleep 0.2
done
cat >"$dir/row.json" <<'J'
{"rows":[{"age":25,"workclass":"Private","fnlwgt":226802,"education":"11th","education_num":7,"marital_status":"Never-married","occupation":"Machine-op-inspct","relationship":"Own-child","race":"Black","sex":"Male","capital_gain":0,"capital_loss":0,"hours_per_week":40,"native_country":"United-States"}]}
J

# load NAME OPTION...: runs hey, prints a line, and sets rate.
load() {
	local name=$1
	shift
	"$hey" -z "${seconds}s" -c "$conns" "$@" >"$dir/hey.txt"
	rate=$(awk '/Requests\/sec:/ {print $2}' "$dir/hey.txt")
	local bad
	bad=$(grep -E '^ *\[[0-9]+\]' "$dir/hey.txt" | grep -v '\[200\]' || true)
	[ -z "$bad" ] || { echo "replies other than 200: $bad" >&2; exit 1; }
	awk -v name="$name" -v rate="$rate" '/50% in/ {p50 = $3} /99% in/ {p99 = $3} /Slowest:/ {most = $2}
		END {printf "%-14s %9.0f replies/s   p50 %5.1f ms   p99 %5.1f ms   slowest %6.1f ms\n", name, rate, 1e3*p50, 1e3*p99, 1e3*most}' "$dir/hey.txt"
}

post=(-m POST -T application/json -D "$dir/row.json" "http://$at/v1/predict")
echo "hey, $conns connections, $seconds s each, quickstart, one row of $(($(wc -c <"$dir/row.json"))) bytes a request"
for turn in $(seq "$turns"); do
	echo "turn $turn"
	load ok "http://$at/healthz"
	load predict "${post[@]}"
	load "predict, half" -q "$(awk -v r="$rate" -v c="$conns" 'BEGIN {printf "%.0f", r / 2 / c}')" "${post[@]}"
done
