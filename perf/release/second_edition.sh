#!/bin/sh
# Makes what the second edition of the weights is trained on: scenes and single images of public repositories
# (results/training/scenes.json) and the scenes of the first edition, all at 640 pixels, so that they can be carried to a lent
# GPU. CPU, about a quarter of an hour; MIRRORS holds copies of the repositories, data/dense the stores of train_weights.sh.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-.venv/bin/python}
PATCHPRINT=${PATCHPRINT:-.venv/bin/patchprint}
MIRRORS=${MIRRORS:-../.mirror}

test -d data/scenes || "$PYTHON" -m perf.release.scenes unpack --mirrors "$MIRRORS" --out data/scenes
# Not castle and entry: the facade behind ETH's fountain is theirs (results/training/leaks.json).
small="$PYTHON -m perf.release.scenes shrink"
for scene in "notredame 50" "liberty 50" "radcliffe 40" "allsouls 35" "christchurch 35" "sceaux 11"; do
  # shellcheck disable=SC2086
  set -- $scene && $small "data/dense/$1" "data/second/old/$1" --most "$2"
done
for scene in banana brighton caliterra copr desk door field-longitudinal field-tarak plush rock seneca viking; do
  "$PATCHPRINT" sfm "data/scenes/$scene/images" --out "data/scenes/$scene/sfm" --detector dog --model patchprint.tiny \
    --max-keypoints 2000
  model="data/scenes/$scene/sfm/model"
  "$PATCHPRINT" data build colmap "data/scenes/$scene" "data/dense/$scene" --sparse "$model/sparse" \
    --database "$model/database.db" --densify
  $small "data/dense/$scene" "data/second/new/$scene"
done
mkdir -p data/single # too little overlap for a model: each image by itself
for scene in buddha skull lund objects; do
  for image in "data/scenes/$scene/images"/*; do cp "$image" "data/single/$scene-$(basename "$image")"; done
done
"$PATCHPRINT" data build unlabeled data/single data/second/single/singles --detector learned --max-size 512 --max-keypoints 500 \
  --patch-scale 48 --max-mb 4.5
"$PYTHON" -m perf.release.second_edition pack data/second
# On the GPU: python3 -m perf.release.second_edition run tries data/second --out "$OUT", then run weights.
# Validation data for patches that others cut, of the scene that nothing learns from:
"$PYTHON" -m perf.release.scenes sequences data/bodleian data/valid-sequences --most 6
"$PATCHPRINT" data build hpatches-sequences data/valid-sequences data/valid-patches --max-keypoints 60
