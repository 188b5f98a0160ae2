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

for run in perf/weights/*.json; do "$PYTHON" -m patchprint.training "$run"; done
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
ship doap-binary 32
