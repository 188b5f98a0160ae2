#!/bin/sh
# Makes the shipped weights from the photos beside the repository: data (CPU, minutes), training (one GPU), packing.
# The patch scale of each model is chosen by perf.experiments.choose_weights and stands in the last lines.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-.venv/bin/python}
PATCHPRINT=${PATCHPRINT:-.venv/bin/patchprint}
PHOTOS=${PHOTOS:-../shared/data/photos}

for scene in notredame liberty castle entry sceaux oxford-landmarks/radcliffe oxford-landmarks/allsouls \
  oxford-landmarks/christchurch oxford-landmarks/bodleian; do
  name=$(basename "$scene")
  test -d "data/$name" || "$PATCHPRINT" data build colmap "$PHOTOS/$scene" "data/$name"
  test -d "data/dense/$name" || "$PATCHPRINT" data build colmap "$PHOTOS/$scene" "data/dense/$name" --densify
done
warp() { # SCENE MEGABYTES
  test -d "data/warped/$(basename "$1")" || "$PATCHPRINT" data build homographies "$PHOTOS/$1/images" \
    "data/warped/$(basename "$1")" --num-views 3 --strength 1.5 --max-keypoints 1000 --max-side 1024 --max-mb "$2"
}
warp sceaux 4.5
warp entry 4
warp castle 12
warp oxford-landmarks/allsouls 14
warp oxford-landmarks/christchurch 14

dense() { for scene; do echo "data/dense/$scene"; done; }
warped() { for scene; do echo "data/warped/$scene"; done; }
DATA="$(dense notredame liberty castle entry sceaux radcliffe allsouls christchurch) \
  $(warped castle entry sceaux allsouls christchurch)"
train() { # NAME RECIPE FLAGS: the words of DATA are the stores, in the order of the runs on record
  name=$1 recipe=$2
  shift 2
  # shellcheck disable=SC2086
  "$PATCHPRINT" train "$recipe" --data $DATA --out "runs/weights/$name" "$@"
}
train sdgmnet sdgmnet-shipped
train sdgmnet-seed1 sdgmnet-shipped --seed 1
train hynet hynet-shipped
train hardnet hardnet-shipped
train hardnet.small hardnet-small-shipped
train doap-binary doap-binary-shipped
"$PYTHON" -m perf.experiments.choose_weights --models runs/weights/*/best.safetensors \
  --tracks data/notredame data/radcliffe data/castle data/bodleian --images data/bodleian --scales 24 28 32 \
  --num-images 3 --points 1000 --out results/experiments/choice-shipped.json
ship() { # NAME PATCH_SCALE
  "$PYTHON" -m perf.release.ship_weights "$1" --weights "runs/weights/$1/best.safetensors" --patch-scale "$2"
  "$PATCHPRINT" calibrate "src/patchprint/weights/$1.safetensors" --write --json > "results/ratio/$1.json"
}
ship sdgmnet 24
ship hynet 24
ship hardnet 24
ship hardnet.small 24
ship doap-binary 28
