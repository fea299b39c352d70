#!/usr/bin/env bash
# Trains the models of `ecrec bench train` with ecrec, TorchRec and FBGEMM by turns; see README.md.
#
#   MODELS   models to train                  deepfm wdl dcnv2
#   PAIRS    turns of each command            7
#   THREADS  threads of each process          2
#   BATCH    samples of a step                2048
#   BY       wall, or cpu: see turns/main.go  wall
#   BARS     least ratios, judged at the end  none; "torchrec=2,1.15" is 2 for torchrec, 1.15 for the others
#   STEPS    steps of a measurement, all      as many as 32,768 samples
#   ECREC_CPU  avx2: ecrec, MKL, oneDNN and PyTorch keep to AVX2
#   PYTHON   a Python that has the packages   an environment in build/peers
set -euo pipefail
cd "$(dirname "$0")/../.."
here=bench/peers
out=build/peers
mkdir -p "$out"

if [ -z "${PYTHON:-}" ]; then
	PYTHON=$out/venv/bin/python
	if ! cmp -s $here/requirements.txt "$out/requirements.txt"; then
		rm -rf "$out/venv"
		python3 -m venv "$out/venv"
		# The three name CUDA packages that CPUs do not need, and each other in versions that they do not need.
		"$out/venv/bin/pip" install -q --disable-pip-version-check -r $here/requirements.txt
		"$out/venv/bin/pip" install -q --disable-pip-version-check --no-deps fbgemm-gpu-cpu==1.9.0 torchrec==1.9.2 torchmetrics==1.0.3
		cp $here/requirements.txt "$out/requirements.txt"
	fi
fi
"$PYTHON" -c 'import torch, torchrec; print("peers: PyTorch", torch.__version__, "TorchRec", torchrec.__version__)'
preload="" wide="" isa=""
if [ "${ECREC_CPU:-}" = avx2 ]; then
	echo "peers: AVX2 on both sides; FBGEMM chooses the instructions of its lookups by itself"
	isa="MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 "
elif grep -q GenuineIntel /proc/cpuinfo; then
	echo "peers: on CPUs of Intel MKL takes AVX-512 by itself"
elif ! grep -qw avx512f /proc/cpuinfo; then
	echo "peers: this CPU has no AVX-512: MKL takes AVX2"
elif command -v cc >/dev/null; then
	cc -O2 -shared -fPIC -o "$out/avx512.so" $here/avx512.c
	preload="LD_PRELOAD=$PWD/$out/avx512.so " wide=512
else
	echo "peers: no C compiler: MKL takes AVX2 on CPUs of AMD"
fi
go build -o "$out/turns" ./$here/turns
[ -e "$out/ids.bin" ] || ./ecrec data synth --to "$out/ids.bin" --samples 524288

missed=0
for model in ${MODELS:-deepfm wdl dcnv2}; do
	batch=${BATCH:-2048} threads=${THREADS:-2}
	steps=${STEPS:-$((32768 / batch))}
	if [ "$model" = dcnv2 ]; then steps=${STEPS:-4}; fi # a step is 200 GFLOP
	peer="$isa$PYTHON $here/train.py --ids $out/ids.bin --model $model --batch $batch --threads $threads --steps $steps --engine"
	commands=("torchrec=$peer torchrec")
	[ -z "$preload" ] || commands+=("torchrec512=$preload$peer torchrec")
	commands+=("fbgemm$wide=$preload$peer fbgemm" "fbgemm-onednn=$peer fbgemm --products onednn")
	"$out/turns" -pairs "${PAIRS:-7}" -by "${BY:-wall}" -title "$model" ${BARS:+-bars "$BARS"} \
		"ecrec=./ecrec bench train model=$model batch=$batch threads=$threads steps=$steps --repeats 4 --json $out/$model.json" \
		"${commands[@]}" | tee "$out/$model.txt" || { [ $? = 1 ] && missed=1 || exit 2; }
done
exit $missed
