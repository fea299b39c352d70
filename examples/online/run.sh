#!/usr/bin/env bash
# From a broker to a served model, on this machine: a Kafka broker, a run that trains on the census data and streams its commits, a follower that
# serves each of them, and Prometheus, if it is installed. One row is scored every two seconds, so that its score is seen to change.
#
#   run.sh [--seconds N] [--dir DIR] [--port PORT]
#
# DIR (default: online) has the logs of all four, and the models. Ports: PORT serves (default 8080), PORT+1 is the trainer's metrics, PORT+2
# is Prometheus. It ends after N seconds, or with Ctrl-C, and stops what it started.
#
# Needs: ecrec in this repository (make build) or in the PATH, Java 17 and Maven (the broker's 43 MB), curl.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
seconds=600 dir=online port=8080
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --dir) dir=$2; shift 2 ;;
    --port) port=$2; shift 2 ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
ecrec=${ECREC:-$root/ecrec}
[ -x "$ecrec" ] || ecrec=$(command -v ecrec) || { echo "neither $root/ecrec nor an ecrec in the PATH: run make build"; exit 1; }
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ ! -e "$dir/kafka" ] || { echo "$dir has a run: choose another --dir, or remove it"; exit 1; }
broker=$root/tools/kafka-on-one-host.sh

started=() follower=
finish() {
  trap - EXIT INT TERM
  [ -z "$follower" ] || started+=("$follower")
  for p in "${started[@]}"; do kill "$p" 2>/dev/null || true; done
  for p in "${started[@]}"; do wait "$p" 2>/dev/null || true; done
  "$broker" stop "$dir/kafka" >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "broker: starting, its files are in $dir/kafka"
at=$("$broker" start "$dir/kafka")
topic=kafka://$at/census
echo "broker: $topic"

# 2000 epochs of the census data: the run lasts longer than a demonstration.
"$ecrec" train "$root/examples/quickstart.toml" --set job.out="$dir/run" --set train.epochs=2000 --set stream.to="$topic" \
  --set optimizer.dense.decay_steps=1000000 --set optimizer.sparse.decay_steps=1000000 \
  --set metrics.listen="127.0.0.1:$((port + 1))" >"$dir/train.log" 2>&1 &
started+=($!)
echo "trainer: $dir/train.log, metrics on port $((port + 1))"

# The topic is there once the run has begun.
for _ in $(seq 100); do
  kill -0 "${started[0]}" 2>/dev/null || { tail -5 "$dir/train.log"; exit 1; }
  ! grep -q 'step ' "$dir/train.log" || break
  sleep 0.2
done
follow=("$ecrec" follow "$topic" --to "$dir/models" --trim --serve "127.0.0.1:$port")
"${follow[@]}" >"$dir/follow.log" 2>&1 &
follower=$!
echo "follower: $dir/follow.log, checkpoints in $dir/models, http://127.0.0.1:$port"
echo "          kill $follower ends it, and this command starts it again: $(printf '%q ' "${follow[@]}")"

if command -v prometheus >/dev/null; then
  sed "s/PORT_OF_TRAINER/$((port + 1))/; s/PORT_OF_FOLLOWER/$port/; s|RULES|$root/examples/monitoring/rules.yml|" "$here/prometheus.yml" >"$dir/prometheus.yml"
  prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/tsdb" --web.listen-address="127.0.0.1:$((port + 2))" >"$dir/prometheus.log" 2>&1 &
  started+=($!)
  echo "prometheus: http://127.0.0.1:$((port + 2)); import examples/monitoring/board.json in Grafana for the board"
else
  echo "prometheus: not installed (Debian's package prometheus)"
fi

row='{"age":39,"fnlwgt":77516,"education_num":13,"capital_gain":2174,"capital_loss":0,"hours_per_week":40,"workclass":"State-gov",
"education":"Bachelors","marital_status":"Never-married","occupation":"Adm-clerical","relationship":"Not-in-family","race":"White","sex":"Male",
"native_country":"United-States"}'
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
  for p in "${started[@]}"; do
    kill -0 "$p" 2>/dev/null || { echo "a process ended:"; tail -n 3 "$dir"/*.log; exit 1; }
  done
  if curl -sf "http://127.0.0.1:$port/readyz" >/dev/null; then # the follower may be gone, and come back
    curl -sf "http://127.0.0.1:$port/v1/predict" -H 'Content-Type: application/json' -d "{\"rows\":[$row]}" || true
  fi
  sleep 2
done
