#!/usr/bin/env bash
# studies.sh OUT SECONDS [PYTHON]: the studies of docs/studies on one machine with a GPU, by value, until the time is over.
# The same command goes on from there. Every finished run lies in OUT/gpu/cache or OUT/cpu/cache; OUT/log says the pace.
#
# Two lanes share the cores: MLPs in one, convolutions on the GPU in the other. First 30 short MLPs train on the GPU and
# on the CPU, and MLPs go where these took less time. NORMEXP_DATA has mnist/ and cifar10_jpeg.tar.gz.
set -u
OUT=$1 END=$((SECONDS + $2)) PYTHON=${3:-python} HERE=$(cd "$(dirname "$0")/../.." && pwd)
CORES=$(env -u OMP_NUM_THREADS nproc) && MOST=$((CORES * 2 / 3)) && REST=$((CORES - MOST))
mkdir -p "$OUT" && export OMP_NUM_THREADS=1 PYTHONPATH=$HERE${PYTHONPATH:+:$PYTHONPATH}

verify() { # DEVICE WORKERS STUDY CLAIMS
  local device=$1 workers=$2 study=$3 left=$((END - SECONDS)) own=()
  [ "$left" -gt 5 ] || return 1
  [ -e "$HERE/docs/studies/$study/${study}_study.py" ] && own=("allow_targets=${study}_study")
  [ "$device" = cpu ] && local -x CUDA_VISIBLE_DEVICES=
  timeout -k 5 "$left" "$PYTHON" -m normexp verify --config-dir "$HERE/docs/studies/$study" claim="$4" bank="$study" \
    evidence=none out="$OUT/$device" --workers "$workers" "${own[@]}" >>"$OUT/$study-$device.log" 2>&1
  echo "$(date +%T) $device $study $4: status $?, $(find "$OUT" -name summary.json | wc -l) runs" >>"$OUT/log"
}

lane() { # DEVICE WORKERS STUDY:CLAIMS ...
  local device=$1 workers=$2 word
  shift 2
  for word in "$@"; do verify "$device" "$workers" "${word%%:*}" "${word#*:}" || return; done
}

if [ ! -e "$OUT/mlps" ]; then
  "$PYTHON" -c "from normexp.config.targets import construct as make, load_data
from normexp.claims.evidence.initial import plain; load_data(plain(('data=cifar10_jpeg',)))" >>"$OUT/log" 2>&1 &
  whole=$END
  for device in gpu cpu; do
    END=$((SECONDS + 45))
    verify $device "$CORES" speed V1
    "$PYTHON" - "$OUT/$device" $device >>"$OUT/pace" <<'END'
import json, pathlib, statistics, sys
seconds = [json.loads(file.read_text())["seconds"] for file in pathlib.Path(sys.argv[1]).rglob("summary.json")]
print(statistics.mean(seconds) if seconds else 1e9, sys.argv[2])
END
  done
  END=$whole
  wait
  sort -g "$OUT/pace" | head -1 | cut -d' ' -f2 >"$OUT/mlps"
fi
cat "$OUT/pace" "$OUT/mlps"
lane "$(cat "$OUT/mlps")" "$MOST" noise:N1 initialization:I1 layer_steps:L1 initialization:I2 parts_of_batchnorm:B1 noise:N5 \
  speed:V5,V3 layer_steps:L2 initialization:I5 initialization:I3 more_seeds:M2 initialization:I4 &
lane gpu "$REST" noise:N3 noise:N2 noise:N4 more_seeds:M1 residuals:R1,R2 parts_of_batchnorm:B2 speed:V2,V4 &
wait
find "$OUT" -maxdepth 1 -name "*.log" -exec tail -n 3 {} +
cat "$OUT/log"
