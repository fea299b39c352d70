#!/usr/bin/env bash
# Builds ecrec with each planted defect of tools/checker/defects, and lets the checker look for it: one row for each. Exit
# code 1 if a defect is not found, or if the program without defects fails.
# Usage: tools/checker/planted.sh [SEED [MINUTES [PATTERN]]]
set -euo pipefail
cd "$(dirname "$0")/../.."
seed=${1:-1} minutes=${2:-5} pattern=${3:-*}
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/ecrec-planted.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
git ls-files -z | xargs -0 tar c | tar x -C "$scratch"
# Without a defect nothing may be found in the same trials: else a row below would mean nothing.
(cd "$scratch" && go build -o ecrec-whole ./cmd/ecrec)
python3 tools/checker --ecrec "$scratch/ecrec-whole" --seed "$seed" --minutes "$minutes" --scratch "$scratch" --log "$scratch/whole.jsonl"
missed=0
for patch in tools/checker/defects/$pattern.patch; do
	name=$(basename "$patch" .patch)
	patch -s -p1 -d "$scratch" <"$patch"
	(cd "$scratch" && go build -o ecrec-planted ./cmd/ecrec)
	patch -s -R -p1 -d "$scratch" <"$patch"
	# All scenarios first, then the one without faults, which draws the most jobs.
	found=no
	for only in "" "--only=same"; do
		python3 tools/checker --ecrec "$scratch/ecrec-planted" --seed "$seed" --minutes "$minutes" $only --first --scratch "$scratch" --log "$scratch/$name.jsonl" >"$scratch/out" || { found=yes; break; }
	done
	if [ $found = no ]; then
		echo "$name: NOT FOUND in $minutes minutes of seed $seed"
		missed=1
		continue
	fi
	trial=$(sed -n 's/^FAILED after .* trial \([^ ]*\) .*/\1/p' "$scratch/out")
	if python3 tools/checker --ecrec "$scratch/ecrec-whole" --replay "$scratch/$name.jsonl" --trial "$trial" --times 3 --scratch "$scratch" --log "$scratch/again.jsonl" >"$scratch/again"; then
		echo "$name: $(grep -m1 -A1 FAILED "$scratch/out" | tr -s ' \n' ' ' | cut -c1-260)${only:+ ($only)}"
	else
		echo "$name: trial $trial fails without the defect too: $(grep -m1 -A1 FAILED "$scratch/again" | tr -s ' \n' ' ' | cut -c1-200)"
		missed=1
	fi
done
exit $missed
