"""Wrong commands, as people type them, on the desk that the hour leaves behind (hour.py says what lies there).

Each must end with exit code 2 and one sentence on stderr, and leave the desk as it was. A line is the command without
``patchprint``, then words of the sentence after ``->``; ``{a,b}`` is a line for each.
"""

_LINES = """
# words that are not there
mtach a.jpg b.jpg -> did you mean match?
frobnicate -> known are
match a.jpg b.jpg --modle sift -> --modle
match a.jpg b.jpg --max-keypoints many -> many is not a whole number
match a.jpg b.jpg --ratio abc -> --ratio: abc is not a number
match a.jpg b.jpg --matcher nearst -> did you mean nearest?
match a.jpg b.jpg --geometry affine -> --geometry
describe photos --out new --format sqlite -> --format
describe photos --out new --workers abc -> --workers: abc is not a whole number
describe photos --out new --detector superpoint -> superpoint
describe photos --out new --detector harris-afine -> harris-affine
describe photos --out new --address auto -> --engine ray
sfm photos --out new --mapper globl -> --mapper
describe photos -> --out
describe --out new -> IMAGES
match -> A
localize a.jpg -> MODEL
train hardnett --data store --out new -> did you mean hardnet
train hardnet --data store --out new --stepz 3 -> --steps
train hardnet --data store --out new --optimizer adagrad -> --optimizer
train distill --data store --out new --teacher patchprnt -> did you mean patchprint
eval oxfrod --model sift --data photos -> oxford
eval oxford --model sift --data photos --px wide -> 'wide' is not a number
study hynet-gradient --out new -> hynet-gradients
data bild photos store -> build
data build colmpa model new -> colmap
data download liberti -> liberty
models --jsno -> --json
report -> nothing to report on
export -> MODEL

# names that are not there
match a.jpg c.jpg -> c.jpg is not there
match missing.jpg b.jpg --out new.png -> missing.jpg is not there
match https://example.com/a.jpg b.jpg -> https://example.com/a.jpg is a web page
match a.jpg b.jpg --model patchprnt -> did you mean patchprint?
{match a.jpg b.jpg --model,calibrate,serve --models} lost.safetensors -> lost.safetensors
export lost.safetensors --out new.onnx -> lost.safetensors
{match nothing,describe nothing,sfm nothing,describe photos --masks nothing} --out new.npz -> nothing
describe photos --out new --model hardnet.tiny -> patchprint.tiny
sfm photos --out new --into nowhere -> nowhere
sfm photos --out new --pairs lost.txt -> lost.txt
sfm photos --out new --exif -> --exif
localize c.jpg model -> c.jpg
localize a.jpg nowhere -> nowhere
adapt nowhere --out new.safetensors -> nowhere
adapt photos --out new.safetensors --model sift -> sift
calibrate patchprint.tiny --data nowhere -> nowhere
train hardnet --data nowhere --out new -> nowhere
train hardnet --out new -> --data
train --out new --resume -> new
train hardnet --data store --out new --init lost.safetensors -> lost.safetensors
train hardnet --data store --out new --loss hardnett -> hardnet
train hardnet --data store --out new --network resnet -> resnet
train hardnet --data store --out new --augmentation none-at-all -> none-at-all
train hardnet --data store --out new --batcher pears -> pairs
train hardnet --data store --out new --config lost.json -> lost.json
data info nowhere -> nowhere
data build {colmap,photos,homographies,unlabeled,phototour,hpatches,rome,images} nowhere new -> nowhere
eval oxford --model patchprint --data nowhere -> nowhere
eval oxford --data photos -> --model
eval pipelines --model alikd --data photos -> pipelines of others are
eval ubc --model sift -> --data
eval --compare lost.json -> lost.json
report nowhere --out new.html -> nowhere
serve --port 99999 -> --port
serve --host nowhere.invalid -> nowhere.invalid
serve --max-seconds 0 -> seconds
export resnet --untrained --out new.onnx -> resnet
study comparison --out new -> --data
study hynet-norms --data train=nowhere --data hpatches=nowhere --out new -> nowhere
study hynet-norms --data liberty=store --out new -> known are train, hpatches

# things of another kind
match photos b.jpg -> photos is a folder
match {a.jpg,--json a.jpg --matcher mutual} -> the second image is missing
match a.jpg b.jpg --engine ray -> leave --engine ray out
match features --out new.json --engine float32 -> --engine float32
{match a.jpg b.jpg --out new.db,describe photos --out new.db --format colmap} --exif -> without --exif
match a.jpg --out new.npz -> the second image is missing
match a.jpg b.jpg {--pairs sequential,--neighbors 3} -> is for many images
match features --out new.json --model sift -> --model is for images
match features --out new.json --detector harris -> --detector is for images
match features --out new.json --max-keypoints 5 -> --max-keypoints is for images
match features --out new.json --max-size 500 -> --max-size is for images
match features --out new.json --upright -> --upright is for images
match features --out new.json --exif -> --exif is for images
match {notes.txt b.jpg,a.jpg b.jpg --model notes.txt} -> notes.txt
match a.jpg b.jpg --model a.jpg -> a.jpg
sfm photos --out new --into photos -> photos
match photos --out new.npz -> photos
match empty --out new.npz -> empty
describe a.jpg --out new -> a.jpg is not a folder
{describe,sfm} empty --out new -> empty holds no images
localize a.jpg photos -> photos
localize notes.txt model -> notes.txt
adapt empty --out new.safetensors -> empty
calibrate notes.txt -> notes.txt
train hardnet --data photos --out new -> photos
train hardnet --data notes.txt --out new -> notes.txt
train hardnet --data store --out new {--config,--init} notes.txt -> notes.txt
train --out photos --resume -> photos
data info photos -> photos
data build colmap photos new -> photos
data build {colmap,photos} empty new -> empty
eval {oxford --model sift,pipelines --model orb} --data empty -> empty
eval ubc --model sift --data photos -> photos
eval --compare notes.txt -> notes.txt
eval --compare deep.json -> deep.json
report notes.txt --out new.html -> notes.txt
report photos --out new.html -> photos
export sift --out new.onnx -> no network
export notes.txt --out new.onnx -> notes.txt
report run --out photos --force -> photos is a folder

# outputs that cannot be
match a.jpg b.jpg --out new.xyz -> .npz
match a.jpg b.jpg --out photos -> photos
match a.jpg b.jpg --out m.npz -> --force
match a.jpg b.jpg --out notes.txt --force -> notes.txt
match a.jpg b.jpg --out new.png --out notes.txt/new.npz -> notes.txt
match a.jpg b.jpg --out new.png --out new.png -> new.png
match features --out new.png -> many images
match features -> --out
{describe,sfm} photos --out notes.txt -> notes.txt
{describe,sfm} photos --out photos -> photos
sfm photos --out photos/sfm -> photos
{describe,sfm} photos --out own -> own
describe photos --out own --force -> own
describe photos --out features.h5 --format hloc -> --force
adapt photos --out new.pth -> .safetensors
adapt photos --out photos --force -> photos
adapt photos --out run/last.safetensors -> --force
eval bundled --model sift --data photos -> brings its own data
eval oxford --model sift --data photos --patch-scale 9 -> has its own patch
eval bundled --model sift --model pixels --out new.json -> give a folder
eval bundled --model sift --model siftt --out new -> siftt
data build {homographies,photos} photos store -> --force
data build photos photos own --force -> own
train hardnet --data store --out run --batch 16 -> --resume
train hardnet --data store --out own --batch 16 -> own
eval bundled --model sift --out notes.txt -> notes.txt
report run --out report.html -> --force
export patchprint --out net.onnx -> --force
export patchprint --hub --out net.onnx -> --hub writes a folder
export patchprint --out photos -> networks are written as .onnx
export tfeat --untrained --out net.foo -> net.foo: networks are written as .onnx

# numbers that cannot be
match a.jpg b.jpg --max-keypoints {0,-5} -> keypoints
match a.jpg b.jpg --max-size 0 -> max
match a.jpg b.jpg {--ratio 0,--ratio 1.5,--ratio nan,--matcher mutual --ratio 0.8} -> ratio
match features --pairs sequential --neighbors 0 --out new.npz -> neighbor
describe photos --out new --workers 0 -> worker
describe photos --out new --max-size -1 -> max
sfm photos --out new --max-keypoints 0 -> keypoints
sfm photos --out new --neighbors 0 --pairs sequential -> neighbor
sfm photos --out new --memory 0 -> memory
sfm photos --out new --workers 0 -> worker
sfm photos --out new --camera-model PINHOLES -> PINHOLE
sfm photos --out new --camera-params 1,2 -> camera
sfm photos --out new --single-camera --camera-params abc -> camera
localize a.jpg model --neighbors 0 -> neighbor
adapt photos --out new.safetensors --steps 0 -> steps
adapt photos --out new.safetensors --batch 1 -> batch
adapt photos --out new.safetensors --lr {-1,nan} -> lr
adapt photos --out new.safetensors --held-out {1.5,nan} -> held
calibrate patchprint.tiny --views 0 -> views
calibrate patchprint.tiny --max-keypoints 0 -> keypoints
calibrate sift --write -> sift
train hardnet --data store --out new --steps {0,-1} -> steps
train hardnet --data store --out new --batch {1,-5} -> batch
train hardnet --data store --out new --batch 100000 -> --batch
train hardnet --data store --out new --lr {-1,nan} -> lr
train hardnet --data store --out new --views 0 -> views
train hardnet --data store --out new --network-options {wdith=8,width=0} -> width
train hardnet --data store --out new --network-options width -> name=value
train hardnet --data store --out new --loss-settings {margni=1,margin=abc} -> margin
train hardnet --data store --out new --batch 16 --patch-scale {0,-3,nan} -> patch
train distill --data store --out new --set teacher_cosine=wide -> teacher_cosine
train hardnet --data store --out new --set loss_weight=0 -> --teacher
data build homographies photos new --views 0 -> views
data build homographies photos new --max-keypoints 0 -> keypoints
data build {homographies,unlabeled} photos new --max-size 0 -> max-size is 0
data build homographies photos new --strength {-1,nan,inf} -> --strength
data build photos photos new --patch-scale {-3,nan} -> --patch-scale
data build photos photos new --max-mb 0 -> mb
data build photos photos new --memory 0 -> memory
eval bundled --model {sift,patchprint.tiny} --patch-scale {-3,nan} -> patch
study sec-patches --out new --data train -> NAME=PATH
study hynet-gradients --out new --budget 0 -> budget
study hynet-gradients --out new --workers 0 -> workers
match a.jpg b.jpg --device gpu -> gpu
match a.jpg b.jpg --engine float64 -> float32
describe photos --out new --engine bfloat61 -> bfloat16
bench --rounds 0 -> rounds
bench --max-keypoints 0 -> keypoints
bench --megapixels 0 -> megapixels
bench --data nowhere -> nowhere
bench --models patchprnt -> patchprint
bench --stages describ -> did you mean describe?
bench --engines float64 -> float
bench --out notes.txt -> notes.txt
bench --images 0 -> images
"""


def wrong_commands() -> dict[str, str]:
    """Each command with words of its sentence."""
    pairs = [line.split(" -> ") for line in _LINES.splitlines() if line and not line.startswith("#")]
    return {line: words for several, words in pairs for line in _expand(several)}


def _expand(line: str) -> list[str]:
    """A line for each of the words in braces, as a shell makes them."""
    head, brace, rest = line.partition("{")
    inside, _, tail = rest.partition("}")
    return [head + word + end for word in inside.split(",") for end in _expand(tail)] if brace else [line]
