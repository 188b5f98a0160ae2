#!/bin/sh
# On the GPU machine: lay out data/ as it is here from the parts that travelled in carry/ (densified sets share the photos).
set -eu
mkdir -p data/dense data/warped
for part in carry/a carry/b; do
  for store in "$part"/plain/*; do ln -sfn "../$store" "data/$(basename "$store")"; done
  for store in "$part"/dense/*; do
    name=$(basename "$store")
    ln -sfn "../../$store" "data/dense/$name"
    test -e "$store/photos.bin" || cp "data/$name/photos.bin" "$store/photos.bin"
  done
done
for store in carry/c/warped/*; do ln -sfn "../../$store" "data/warped/$(basename "$store")"; done
ln -sfn ../carry/c/castle-plain data/castle
