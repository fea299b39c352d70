#!/usr/bin/env bash
# Compares the measurements of check.sh, in the given folder, with the bars for an H100 or H200. Exits
# with 1 if a bar is missed or a report lacks its figure. Missing measurements are named, and are not
# failures.
set -uo pipefail
out=$1
missed=0

# median FILE FIGURE: the median of a figure of a report; empty without a report.
median() {
	[ -f "$out/$1" ] && awk -F'"' -v figure="$2" '
		$2 == "name" { is = $4 == figure }
		is && $2 == "median" { gsub(/[^-+.0-9e]/, "", $3); print $3; found = 1; exit }
		END { if (!found) print "none" }' "$out/$1"
}
# bar NAME VALUE least|most BOUND UNIT: prints the verdict.
bar() {
	local verdict="not measured"
	if [ "$2" = none ]; then
		verdict=MISSED
	elif [ -n "$2" ]; then
		verdict=$(awk -v x="$2" -v side="$3" -v bound="$4" 'BEGIN { print (side == "least" ? x >= bound : x <= bound) ? "holds" : "MISSED" }')
	fi
	echo "bar: $1: ${2:--} $5, at $3 $4: $verdict"
	[ "$verdict" != MISSED ] || missed=1
}

for what in "gather" "segment sums" "segment sums and sgd" "segment sums and rowwise adagrad" "segment sums and adagrad" "segment sums and adam"; do
	bar "$what" "$(median kernels.json "$what, of a copy")" least 70 "% of a copy"
done
ours=$({
	median train.json "mlperf batch 65536 training"
	median train-cublas.json "mlperf batch 65536 training"
} | sort -g | tail -n 1)
bar "MLPerf DLRM" "$ours" least 2000000 "samples/s"
theirs=$([ -f "$out/bench-torch.txt" ] && sed -n 's/.*: \([0-9,]*\) samples\/s.*/\1/p' "$out/bench-torch.txt" | tr -d , | sort -g |
	awk '{ x[NR] = $1 } END { print NR ? x[int((NR + 1) / 2)] : "none" }')
ratio=
if [ "$ours" = none ] || [ "$theirs" = none ]; then
	ratio=none
elif [ -n "$ours" ] && [ -n "$theirs" ]; then
	ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.2f", a / b }')
fi
bar "beside PyTorch" "$ratio" least 2 "times"
bar "erasure coding" "$(median overhead.json "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: with / without the code")" most 1.01 "times"
exit $missed
