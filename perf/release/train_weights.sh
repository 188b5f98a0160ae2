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
    "data/warped/$(basename "$1")" --views 3 --strength 1.5 --max-keypoints 1000 --max-size 1024 --max-mb "$2"
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
# The papers' networks by the papers' recipes at full length, trained on liberty: 14 minutes for sdgmnet, 1 to 4 for the others. On
# a GPU that is lent for minutes: python -m perf.lease.gpu, the runs "exact" and "exact-doap" of perf/lease/runs.json.
LANDMARKS=$(dense radcliffe allsouls christchurch | paste -sd,)
for paper in sdgmnet hynet sosnet hardnet l2-net; do
  "$PATCHPRINT" study sdgmnet-table1 --data liberty=data/dense/liberty --data notredame=data/dense/notredame --data yosemite="$LANDMARKS" \
    --only "$paper-liberty-seed0" --keep --out runs/exact
done
"$PATCHPRINT" study doap-transformer --data liberty=data/dense/liberty --data notredame=data/dense/notredame --data yosemite="$LANDMARKS" \
  --only none-liberty-seed0 --keep --out runs/exact-doap

# With warped copies of photos of anything, and the same photos without labels for the students: folders data/wild/1 to 4, out of
# copies of the repositories that results/training/wild-photos.json lists.
MIRRORS=${MIRRORS:-../.mirror}
test -d data/wild || "$PYTHON" -m perf.release.wild_images --mirrors "$MIRRORS" --out data/wild
for part in 1 2 3 4; do
  test -d "data/warped/wild-$part" || "$PATCHPRINT" data build homographies "data/wild/$part" "data/warped/wild-$part" \
    --views 3 --strength 1.5 --max-keypoints 800 --max-size 640 --max-mb 25
  test -d "data/any-wild-$part" || "$PATCHPRINT" data build unlabeled "data/wild/$part" "data/any-wild-$part" \
    --max-size 768 --max-keypoints 900 --patch-scale 36 --max-mb 14
done
DATA="$DATA $(warped wild-1 wild-2 wild-3 wild-4)"
train patchprint patchprint-shipped
# What of it repeats with another seed, with the two more layers and without.
train patchprint-seed1 patchprint-shipped --seed 1
for seed in 0 1; do
  train "ranking-seed$seed" patchprint-shipped --set ranking=1 --network-options dropout=0.3 input_norm=standard fovea=3 --seed "$seed"
done
DATA="data/any-wild-1 data/any-wild-2 data/any-wild-3 data/any-wild-4 \
  $(dense notredame liberty castle entry sceaux radcliffe allsouls christchurch)"
for student in fast tiny bits; do
  train "patchprint.$student" "patchprint-$student-shipped" --teacher runs/weights/patchprint/best.safetensors
done

choose() { # OUT SCALES MODELS: by a scene that nothing learned from
  out=$1 scales=$2
  shift 2
  # shellcheck disable=SC2086
  "$PYTHON" -m perf.experiments.choose_weights --models "$@" --tracks data/bodleian --images data/bodleian \
    --scales $scales --out "results/experiments/$out.json"
}
choose choice-ranking "32 36 40 44 48" runs/weights/ranking-seed*/best.safetensors runs/weights/patchprint/best.safetensors
choose choice-students-longer "28 32 36 40" runs/weights/patchprint.tiny/best.safetensors runs/weights/patchprint.fast/best.safetensors \
  runs/weights/patchprint.bits/best.safetensors
"$PYTHON" -m perf.experiments.choose_weights --models runs/exact/runs/*/best.safetensors --tracks data/dense/notredame \
  data/dense/radcliffe --images data/bodleian --scales 12 16 20 24 --num-images 5 --points 1000 --engine auto \
  --out results/experiments/choice-papers.json
ship() { # NAME WEIGHTS PATCH_SCALE CHOICE FLAGS
  name=$1 file=$2 scale=$3 choice=$4
  shift 4
  # shellcheck disable=SC2086  # the folder of a study's run ends in a checksum
  "$PYTHON" -m perf.release.ship_weights "$name" --weights runs/weights/$file --patch-scale "$scale" \
    --choice "results/experiments/$choice.json" "$@"
  "$PATCHPRINT" calibrate "src/patchprint/networks/pretrained/$name.safetensors" --write --json > "results/ratio/$name.json"
}
ship patchprint patchprint/best.safetensors 36 choice-ranking
for student in fast bits; do
  ship "patchprint.$student" "patchprint.$student/best.safetensors" 36 choice-students-longer --teacher patchprint
done
ship patchprint.tiny patchprint.tiny/best.safetensors 32 choice-students-longer --teacher patchprint
HOW="the paper's network and recipe at full length, patches of 12 sigma"
BEST="best step by the two other rebuilt sets, as in the paper"
for paper in sdgmnet hynet sosnet hardnet; do
  ship "$paper" "../exact/runs/$paper-liberty-seed0-*/best.safetensors" 16 choice-papers --notes "$HOW; $BEST"
done
ship doap "../exact-doap/runs/none-liberty-seed0-*/last.safetensors" 16 choice-papers --notes "$HOW"
# The shipped file is from a run that the end of a GPU lease stopped at step 116,001 of 125,000; its card says so.
ship l2net "../exact/runs/l2-net-liberty-seed0-*/best.safetensors" 16 choice-papers --notes "$HOW; $BEST"

# The matcher graph, with descriptors of patchprint.fast; its weights serve the others too (docs/evidence/matching.md).
SCENES=
for scene in castle entry sceaux notredame liberty oxford-landmarks/radcliffe oxford-landmarks/christchurch; do
  store="data/stores/$scene"
  test -d "$store" || "$PATCHPRINT" data build colmap "$PHOTOS/$scene" "$store"
  SCENES="$SCENES --data $store"
done
# shellcheck disable=SC2086
"$PATCHPRINT" train matcher --model patchprint.fast $SCENES --images 30 --steps 400 --batch 8 --lr 0.003 --validate-every 80 \
  --device cpu --out runs/weights/graph
cp runs/weights/graph/best.safetensors src/patchprint/matching/pretrained/patchprint.fast.safetensors
