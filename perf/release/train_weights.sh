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

# With warped copies of photos of anything, and the same photos without labels for the students: folders data/wild/1 to 4, out of
# copies of the repositories that results/training/wild-photos.json lists.
MIRRORS=${MIRRORS:-../.mirror}
test -d data/wild || "$PYTHON" -m perf.release.wild_photos --mirrors "$MIRRORS" --out data/wild
for part in 1 2 3 4; do
  test -d "data/warped/wild-$part" || "$PATCHPRINT" data build homographies "data/wild/$part" "data/warped/wild-$part" \
    --num-views 3 --strength 1.5 --max-keypoints 800 --max-side 640 --max-mb 25
  test -d "data/any-wild-$part" || "$PATCHPRINT" data build unlabeled "data/wild/$part" "data/any-wild-$part" \
    --max-side 768 --max-keypoints 900 --patch-scale 36 --max-mb 14
done
DATA="$DATA $(warped wild-1 wild-2 wild-3 wild-4)"
train sdgmnet.large sdgmnet-large-shipped
unlabeled() { # STORE SCENES
  store=$1
  shift
  for scene; do
    mkdir -p "data/photos/$store/$(basename "$scene")"
    ln -sf "$(realpath "$PHOTOS/$scene/images")"/* "data/photos/$store/$(basename "$scene")/"
  done
  test -d "data/$store" || "$PATCHPRINT" data build unlabeled "data/photos/$store" "data/$store" --max-keypoints 2000 --max-mb 17
}
unlabeled any-one notredame liberty
unlabeled any-two castle entry sceaux oxford-landmarks/radcliffe oxford-landmarks/allsouls oxford-landmarks/christchurch
DATA="data/any-one data/any-two data/any-wild-1 data/any-wild-2 data/any-wild-3 data/any-wild-4"
for student in fast tiny bits; do
  train "sdgmnet.$student" "sdgmnet-$student-shipped" --teacher runs/weights/sdgmnet.large/best.safetensors
done
"$PYTHON" -m perf.experiments.choose_weights --models runs/weights/sdgmnet.*/best.safetensors --tracks data/bodleian \
  --images data/bodleian --scales 28 32 36 40 --out results/experiments/choice-fovea.json

"$PYTHON" -m perf.experiments.choose_weights --models runs/weights/[!s]*/best.safetensors \
  runs/weights/sdgmnet/best.safetensors --tracks data/notredame data/radcliffe data/castle data/bodleian \
  --images data/bodleian --scales 24 28 32 --num-images 3 --points 1000 --out results/experiments/choice-shipped.json
ship() { # NAME PATCH_SCALE FLAGS
  name=$1 scale=$2
  shift 2
  "$PYTHON" -m perf.release.ship_weights "$name" --weights "runs/weights/$name/best.safetensors" --patch-scale "$scale" "$@"
  "$PATCHPRINT" calibrate "src/patchprint/weights/$name.safetensors" --write --json > "results/ratio/$name.json"
}
ship sdgmnet 24
ship hynet 24
ship hardnet 24
ship hardnet.small 24
ship doap-binary 28
ship sdgmnet.large 32 --choice results/experiments/choice-fovea.json
for student in fast tiny bits; do
  ship "sdgmnet.$student" 32 --choice results/experiments/choice-fovea.json --teacher sdgmnet.large
done
