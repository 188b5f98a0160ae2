"""The first hour as a list of steps: what a new user types, one after the other, at a desk (a folder) with photos on it.

The same steps are played twice: by the tests on four small rendered photos in this process, and by ``make first-hour`` on real
photos with the wheel in a fresh virtual environment (play.py). Later steps, the wrong commands among them, use what earlier
ones made.
"""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Amounts:
    """How much work the steps are; the rest of a command is the same for small and large photos."""

    keypoints: int
    steps: int
    batch: int

    def fill(self, line: str) -> str:
        return line.format(keypoints=self.keypoints, steps=self.steps, more_steps=self.steps * 2, batch=self.batch)


@dataclass(frozen=True)
class Step:
    """A command of patchprint, or a client that reads what one wrote (a function in clients.py).

    Attributes:
        line: what is typed after ``patchprint``, or the client's name.
        makes: what lies on the desk afterwards.
        says: words on stdout or stderr.
        long: played by ``make first-hour`` only, since other tests have it or it takes long.
    """

    line: str
    makes: str = ""
    says: str = ""
    client: bool = False
    long: bool = False

    def arguments(self, amounts: Amounts) -> list[str]:
        return shlex.split(amounts.fill(self.line))


def client(name: str, says: str = "", long: bool = False) -> Step:
    return Step(name, says=says, client=True, long=long)


FAST = "--model patchprint.tiny --max-keypoints {keypoints}"

STEPS = (
    Step("--version", says="patchprint"),
    Step("--help", says="describe"),
    Step("models", says="patchprint.tiny"),
    client("readme", long=True),  # the documents are run by tests/docs
    # Two photos, to every kind of file.
    Step(
        "match a.jpg b.jpg --out m.png --out m.npz --out m.h5 --out m.db --out m.json --out m.csv --max-keypoints {keypoints}",
        makes="m.png m.npz m.h5 m.db m.json m.csv",
        says="matches",
    ),
    client("match_files"),
    client("page_answers", long=True),  # tests/web has it
    client("hloc_reads_a_pair", long=True),
    # A folder of photos.
    Step(f"describe photos --out features {FAST}", makes="features", says="images described"),
    Step(
        f"describe photos --out sharded --shards --progress progress.jsonl {FAST}",
        makes="sharded/shards progress.jsonl",
    ),
    Step("match sharded --pairs retrieval --neighbors 2 --out shards-of-matches", makes="shards-of-matches/pairs.txt"),
    Step(f"describe photos --out features.h5 --format hloc {FAST}", makes="features.h5"),
    Step(f"describe photos --out yml --format opencv-yml {FAST}", makes="yml"),
    Step(f"describe photos --out bare.db --format colmap {FAST}", makes="bare.db", says="patchprint match"),
    Step("match features --out matched.db", makes="matched.db"),
    Step("match features --out matches.h5", makes="matches.h5"),
    Step("match features.h5 --pairs sequential --neighbors 2 --out some.npz", makes="some.npz"),
    client("opencv_reads"),
    client("pycolmap_reads_features"),
    client("pycolmap_maps", long=True),
    client("hloc_maps_our_files", long=True),
    client("hloc_runs_us_by_name", long=True),
    # A 3D model, one photo in it, and more photos.
    Step(
        f"sfm photos --out model {FAST}",
        makes="model/points.ply model/summary.json model/report.html",
        says="registered",
    ),
    Step("localize a.jpg model", says="a.jpg"),
    Step("sfm more --into model --out grown", makes="grown/points.ply", long=True),
    # Learning.
    Step("data build homographies photos store --views 4 --max-keypoints {keypoints}", makes="store"),
    Step("data info store", says="points"),
    Step(
        "train hardnet --data store --out run --steps {steps} --batch {batch} --network-options width=8",
        makes="run run/report.html",
    ),
    Step("train --out run --resume --steps {more_steps}", says="{more_steps}", long=True),
    Step("data build unlabeled photos any --max-keypoints {keypoints}", makes="any"),
    Step(
        "train distill --data any --out taught --teacher patchprint.tiny --steps {steps} --batch {batch}",
        makes="taught",
        says="disagreement with the teacher",
        long=True,
    ),
    Step("calibrate run/last.safetensors --data photos --views 1 --max-keypoints 100 --write", says="ratio"),
    Step("match a.jpg b.jpg --model run/last.safetensors --max-keypoints {keypoints}", says="matches"),
    Step(
        "adapt photos --out tuned.safetensors --model patchprint.tiny --steps {steps} --batch {batch}",
        makes="tuned.safetensors tuned.html tuned.json",
        long=True,
    ),
    # Measuring, and showing what was measured.
    Step(
        "eval bundled --model sift --model patchprint.tiny --out results --no-cache", makes="results/bundled", long=True
    ),
    Step("eval bundled --model sift --max-keypoints {keypoints} --out sift.json --no-cache", makes="sift.json"),
    Step("eval --compare sift.json", says="sift"),
    Step("report run sift.json m.png --out report.html", makes="report.html"),
    Step(
        "bench --rounds 1 --max-keypoints 200 --models patchprint.tiny --out bench.json", makes="bench.json", long=True
    ),
    Step("study hynet-gradients --out study", makes="study/hynet-gradients.json study/hynet-gradients.html"),
    # Other programs.
    Step("export patchprint --out net.onnx", makes="net.onnx", says="onnxruntime"),
    Step("export patchprint --hub --out hub", makes="hub/README.md hub/model.safetensors", says="Apache-2.0"),
    client("onnxruntime_describes"),
    client("demo", long=True),
)


def lay_the_desk(desk: Path, photos: list[Path]) -> None:
    """An empty folder with photos, and with what wrong commands stumble over. The last photo is there as one more."""
    for number, photo in enumerate(photos):
        folder = desk / ("more" if number == len(photos) - 1 else "photos")
        folder.mkdir(exist_ok=True)
        shutil.copy(photo, folder)
    for letter, photo in zip("ab", photos, strict=False):
        shutil.copy(photo, desk / f"{letter}.jpg")
    (desk / "empty").mkdir()
    (desk / "notes.txt").write_text("This is no photo.\n")
    (desk / "deep.json").write_text("[" * 100_000)
    (desk / "own").mkdir()
    (desk / "own" / "thesis.txt").write_text("This is not patchprint's to remove.\n")
