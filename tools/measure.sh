#!/bin/sh
# Measures models on all real data sets and writes one JSON for each into results/BENCHMARK/ (docs/data.md: what the data are):
#   sh tools/measure.sh data                     build the stores (once)
#   sh tools/measure.sh all sift rootsift        every benchmark for some models
#   sh tools/measure.sh oxford patchprint           one benchmark
# A model is a name or a weight file. More flags for patchprint eval go into FLAGS, as in FLAGS="--patch-scale 24 --force".
set -eu
cd "$(dirname "$0")/.."
PATCHPRINT=${PATCHPRINT:-.venv/bin/patchprint}
SHARED=${SHARED:-../shared/data}
STORES=${STORES:-data/stores}
OUT=${OUT:-results}
FLAGS=${FLAGS:-}
LANDMARKS="radcliffe allsouls christchurch bodleian"

build() { # KIND SOURCE STORE
  test -d "$STORES/$3" || "$PATCHPRINT" data build "$1" "$SHARED/$2" "$STORES/$3"
}

data() {
  build hpatches-sequences oxford hpatches-oxford
  for scene in notredame liberty; do build colmap "photos/$scene" "$scene"; done
  for scene in $LANDMARKS; do build colmap "photos/oxford-landmarks/$scene" "oxford-landmarks/$scene"; done
}

measure() { # BENCHMARK MODEL, then --data ...
  benchmark=$1 model=$2
  shift 2
  # shellcheck disable=SC2086
  "$PATCHPRINT" eval "$benchmark" --model "$model" "$@" --out "$OUT" $FLAGS
}

one() { # BENCHMARK MODEL
  case $1 in
    oxford | pairs) measure "$1" "$2" --data "$SHARED/oxford" ;;
    pipelines) measure pipelines "$2" --data "$SHARED/oxford" --data "$SHARED/eth" ;;
    hpatches) measure hpatches "$2" --data "$STORES/hpatches-oxford" ;;
    eth) for scene in fountain herzjesu; do measure eth "$2" --data "$SHARED/eth/$scene"; done ;;
    eth-ratio) # the threshold of the ratio test in RATIO; patchprint models --json has that of each model
      for scene in fountain herzjesu; do
        out="$OUT/eth/$scene-$(basename "$2" .safetensors)-ratio.json"
        # shellcheck disable=SC2086
        "$PATCHPRINT" eval eth --model "$2" --data "$SHARED/eth/$scene" --ratio "${RATIO:-0.8}" --out "$out" $FLAGS
      done
      ;;
    ubc)
      together=
      for scene in $LANDMARKS; do together="$together,$STORES/oxford-landmarks/$scene"; done
      measure ubc "$2" --data "$STORES/notredame" --data "$STORES/liberty" --data "${together#,}"
      ;;
    rotation | scale) measure "$1" "$2" --data "$SHARED/oxford/graf/img1.png" ;;
    *) echo "unknown benchmark $1" >&2 && exit 2 ;;
  esac
}

what=$1
shift
case $what in
  data) data ;;
  all) for model in "$@"; do for b in oxford pairs hpatches ubc rotation scale eth; do one "$b" "$model"; done; done ;;
  *) for model in "$@"; do one "$what" "$model"; done ;;
esac
