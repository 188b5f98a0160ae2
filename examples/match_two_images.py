"""Match two images: keypoints, descriptors, verified matches, a drawing and a file of coordinates.

python examples/match_two_images.py a.jpg b.jpg matches.png
"""

import argparse
from pathlib import Path

import patchprint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("out", type=Path, help="drawing of the matches (.png or .jpg)")
    parser.add_argument("--model", default="patchprint", help="shipped weights, a weight file, or rootsift, sift")
    arguments = parser.parse_args()

    model = patchprint.load(arguments.model)
    a, b = patchprint.extract(arguments.a, model), patchprint.extract(arguments.b, model)
    matches = patchprint.verify(a, b, patchprint.match(a, b))
    print(f"{len(a)} and {len(b)} keypoints, {len(matches)} matches, {matches.num_inliers} inliers: {matches.verdict}")

    patchprint.draw(a, b, matches, arguments.out)
    in_a, in_b = matches.points(a, b, inliers_only=True)
    with arguments.out.with_suffix(".csv").open("w", encoding="utf-8") as file:
        file.write("x_a,y_a,x_b,y_b\n")
        for point in zip(in_a.tolist(), in_b.tolist(), strict=True):
            file.write("{:.2f},{:.2f},{:.2f},{:.2f}\n".format(*point[0], *point[1]))


if __name__ == "__main__":
    main()
