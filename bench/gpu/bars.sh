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
# training FILE MODEL: the rate of training, in samples/s.
training() { median "$1" "$2 batch 65536 training"; }
# torch FILE: the median rate of PyTorch; empty if it was not measured.
torch() {
	[ -f "$out/$1" ] && sed -n 's/^PyTorch .*: \([0-9,]*\) samples\/s.*/\1/p' "$out/$1" | tr -d , | sort -g |
		awk '{ x[NR] = $1 } END { print NR ? x[int((NR + 1) / 2)] : "none" }'
}
# ratio A B: the ratio of two rates.
ratio() {
	if [ "$1" = none ] || [ "$2" = none ]; then
		echo none
	elif [ -n "$1" ] && [ -n "$2" ]; then
		awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
	fi
}
# Float32 beside float32: exact products or cuBLAS, the faster one. TF32 beside TF32.
float32=$({
	training train.json mlperf
	training train-cublas.json mlperf
} | sort -g | tail -n 1)
bar "MLPerf DLRM" "$float32" least 2000000 "samples/s"
bar "beside PyTorch" "$(ratio "$float32" "$(torch bench-torch.txt)")" least 2 "times"
bar "beside PyTorch, TF32" "$(ratio "$(training train-cublas-tf32.json mlperf)" "$(torch bench-torch-tf32.txt)")" least 2 "times"
bar "MLPerf DCNv2, exact" "$(training dcnv2.json dcnv2)" least 500000 "samples/s"
# MLPerf's best published rates for a GPU, in mixed precision: 1.72 million on an H100, 1.94 million on an H200.
bar "MLPerf DCNv2, TF32" "$(training dcnv2-cublas-tf32.json dcnv2)" least 1700000 "samples/s"
bar "erasure coding" "$(median overhead.json "dim48 batch 16384 ranks 5 xor k 4 r 1 every 10: with / without the code")" most 1.01 "times"
longest=$([ -f "$out/recovery.txt" ] && sed -n 's/^recovered in \([0-9.]*\) ms/\1/p' "$out/recovery.txt" | sort -g | awk '{ x = $1 } END { print NR ? x : "none" }')
bar "longest recovery by a standby" "$longest" most 2000 "ms"
exit $missed
