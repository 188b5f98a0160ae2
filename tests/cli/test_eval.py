"""The command: JSON out, files, cache, comparison, and one sentence with exit code 2 for what is wrong."""

import json
from pathlib import Path

import pytest

from patchprint.cli import eval as eval_command, main
from patchprint.features.model import PixelModel
from patchprint.networks import ModelInfo
from support.benchmark_data import write_store


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("patchprint: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_result_has_everything_that_repeats_it(sequences: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["eval", "oxford", "--model", "rootsift", "--data", sequences, "--json"]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["schema"] == 1
    assert first["benchmark"] == "oxford"
    assert first["settings"]["px"] == 4.0
    assert first["model"]["name"] == "rootsift"
    assert len(first["data"]["sha256"]) == 64
    assert set(first["run"]) >= {"command", "version", "machine", "date", "seconds", "peak_mib"}
    assert main(arguments) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["scores"] == first["scores"]
    assert second["run"]["cache"] == {"hits": 4, "misses": 0}


def test_networks_are_computed_in_float32_and_the_text_says_so(
    sequences: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", "oxford", "--model", "patchprint.tiny", "--data", sequences, "--no-cache"]
    assert main(arguments) == 0
    assert "engine: float32" in capsys.readouterr().out
    assert main([*arguments, "--engine", "bfloat16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["engine"] == "bfloat16"


def test_several_models_compare_and_report(sequences: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    arguments = ["eval", "oxford", "--model", "sift", "--model", "pixels", "--data", sequences, "--out", str(out)]
    assert main(arguments) == 0
    assert "pixels" in capsys.readouterr().out
    files = sorted(map(str, out.rglob("*.json")))
    assert [Path(file).relative_to(out).as_posix() for file in files] == [
        "oxford/data-pixels.json",
        "oxford/data-sift.json",
    ]
    assert "exists already" in refused(arguments, capsys)
    assert main(["eval", "--compare", *files]) == 0
    table = capsys.readouterr().out
    assert table.startswith("oxford on data")
    assert "sift" in table
    assert main(["report", *files, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "oxford on data" in page
    assert 'src="http' not in page


@pytest.mark.parametrize(
    ("data", "model", "scale", "file"),
    [
        ("set", "m", None, "oxford/set-m.json"),
        ("set/img1.png", "m.small", 24.0, "oxford/img1-m.small-24sigma.json"),
        ("one/oxford", "m", None, "oxford/m.json"),
        ("one/oxford-small", "m", None, "oxford/small-m.json"),
        ("one/oxfordshire", "m", None, "oxford/oxfordshire-m.json"),
        ("many/a,many/b", "m", None, "oxford/many-m.json"),
        (".", "m", None, "oxford/m.json"),
        ("oxford", "../../m", None, "oxford/..-..-m.json"),
        ("oxford", "/etc/m", None, "oxford/-etc-m.json"),
        ("oxford", "..\\m", None, "oxford/..-m.json"),
    ],
)
def test_results_are_named_after_benchmark_data_and_model(
    data: str, model: str, scale: float | None, file: str
) -> None:
    """Whatever a model is called, its result stays in the folder."""
    common = eval_command.Common(out=Path("out"), patch_scale=scale)
    named = PixelModel()
    named.info = ModelInfo(model, network="")
    target = eval_command._target(common, "oxford", data, named)
    assert target == Path("out") / file
    assert len(target.parts) == 3


def test_patch_scale_is_part_of_the_result(sequences: str, capsys: pytest.CaptureFixture[str]) -> None:
    values = []
    for scale in ("12", "24"):
        assert main(["eval", "oxford", "--model", "pixels", "--data", sequences, "--patch-scale", scale, "--json"]) == 0
        values.append(json.loads(capsys.readouterr().out))
    assert [value["model"]["patch_scale"] for value in values] == [12.0, 24.0]
    assert values[0]["scores"]["map"] != values[1]["scores"]["map"]


def test_signs_of_float_weights(sequences: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(tmp_path / "patches", views=16, scenes=3)
    data = {"oxford": sequences, "ubc": str(tmp_path / "patches"), "hpatches": str(tmp_path / "patches")}
    for benchmark, path in data.items():
        arguments = ["eval", benchmark, "--model", "pixels", "--data", path, "--signs"]
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
        (file,) = (tmp_path / "out" / benchmark).iterdir()
        result = json.loads(file.read_text())
        assert file.name.endswith("pixels+bits.json")
        assert (result["model"]["name"], result["model"]["kind"]) == ("pixels+bits", "binary")
        capsys.readouterr()
    assert "their signs say nothing" in refused(
        ["eval", "oxford", "--model", "sift", "--data", sequences, "--signs"], capsys
    )


def test_skipped_pictures_are_counted(sequences: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad = Path(sequences) / "one" / "img3.png"
    bad.write_bytes(b"no picture")
    (bad.parent / "H1to3p").write_text("1 0 0\n0 1 0\n0 0 1\n")
    arguments = ["eval", "oxford", "--model", "sift", "--data", sequences]
    assert "img3.png" in refused([*arguments, "--strict"], capsys)
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scores"]["skipped"] == ["one/img3.png"]
    assert "left out:" in captured.err and "img3.png" in captured.err
