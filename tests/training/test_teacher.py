"""Learning from a teacher: what it sees, what it says, and runs that follow it."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data import Tracks, TrackStore
from patchprint.networks import weights
from patchprint.training import assembly, held_out, resolve
from patchprint.training.run_folder import read_metrics
from patchprint.training.step import TrainStep
from patchprint.training.teacher import Teacher
from support import training_data
from support.host_reads import NoHostReads
from support.network_patches import trained_looking
from support.training_data import images, short_run

CPU = torch.device("cpu")


@pytest.fixture
def teacher_file(tmp_path):
    """Weights with the batch statistics of a trained network, of 32 numbers as the students of these tests."""
    return save(tmp_path / "teacher.safetensors")


def save(path, seed=0, network="hardnet", **options):
    made = trained_looking(network, seed, **{"width": 4, "dim": 32, **options})
    weights.save(made, path)
    return str(path)


def unlabeled(points=160):
    """Points that are seen once each; the last image is held out."""
    source = images(points=points, views=4, upright=True)
    tracks = source.tracks
    kept = np.flatnonzero(tracks.image == tracks.point % 4)
    single = Tracks.from_observations(
        tracks.image[kept], tracks.xy[kept], tracks.scale[kept], tracks.angle[kept], np.arange(len(kept))
    )
    part = (single.image == 3).astype(np.uint8)
    pixels = [source.images.pixels(number) for number in range(4)]
    return TrackStore.from_images(pixels, dataclasses.replace(single, part=part))


def settings(teacher_file, **changes):
    return {
        **training_data.SHORT,
        "teacher": (teacher_file,),
        "network_options": training_data.narrow("hardnet"),
        **changes,
    }


def made(teacher_file, source=None, **changes):
    """A step of the recipe and its teacher."""
    source = unlabeled().split("train") if source is None else source
    config = resolve("distill", **settings(teacher_file, **changes))
    teacher = Teacher.load(config, source, bf16=False)
    return TrainStep(config, source, assembly.create(config, CPU), teacher), teacher


def disagreement(judge, network):
    return judge.measure(network)["disagreement"]


def test_it_sees_the_patches_of_the_batch_and_says_what_its_network_says(teacher_file):
    step, teacher = made(teacher_file)
    patches, *_, seen = step._cut_patches(step.step)
    assert len(seen) == 1 and seen[0] is patches
    network = weights.load_network(teacher_file)
    with torch.no_grad():
        torch.testing.assert_close(teacher(seen), network(patches))
    assert not teacher(seen).requires_grad


def test_similarities_of_several_teachers_are_averaged(tmp_path):
    files = [save(tmp_path / "a.safetensors"), save(tmp_path / "b.safetensors", seed=1, dim=16, network="doap-st")]
    source = unlabeled().split("train")
    config = resolve("distill", **settings(files[0], teacher=tuple(files)))
    teacher = Teacher.load(config, source, bf16=False)
    assert teacher.sizes == (32, 42) and teacher.dim == 48
    points = torch.arange(20)
    seen = [source.sample(points, torch.zeros_like(points)[:, None], size)[:, 0] for size in teacher.sizes]
    said = teacher(seen)
    with torch.no_grad():
        each = [weights.load_network(file)(patches) for file, patches in zip(files, seen, strict=True)]
    torch.testing.assert_close(said @ said.T, sum(one @ one.T for one in each) / 2)
    torch.testing.assert_close(said.norm(dim=1), torch.ones(20))


def test_a_step_reads_nothing_back_to_the_host(teacher_file):
    step, _ = made(teacher_file)
    step.run()
    with NoHostReads():
        losses, _ = step._objective(*step._patches(step.step), step.step)
        losses["total"].backward()


@pytest.mark.slow
def test_a_step_compiles_without_a_break(teacher_file):
    """As one graph each, which a recorded step needs; of code that is made of it there are tests of the losses."""
    compiled, plain = (made(teacher_file)[0] for _ in range(2))
    for part in ("_patches", "_objective"):
        setattr(compiled, part, torch.compile(getattr(compiled, part), backend="eager", fullgraph=True))
    for step in (compiled, plain):
        step.run()
    torch.testing.assert_close(compiled.losses["total"], plain.losses["total"])


@pytest.mark.parametrize(("dim", "left"), [(128, 0.6), (32, 0.9)])
def test_a_student_learns_what_the_teacher_says_of_images_without_tracks(dim, left, tmp_path):
    teacher, options = "patchprint.tiny", {"width": 8, "dim": dim}
    changes = {"teacher": (teacher,), "steps": 60, "batch": 32, "network_options": options}
    outcome, losses = short_run("distill", tmp_path / "run", unlabeled(), **changes)
    assert np.mean(losses[-5:]) < left * np.mean(losses[:5])
    assert set(outcome.measured) == {"disagreement"} and outcome.selected_on == "validation"
    judge = held_out.HeldOutPatches(unlabeled().split("val"), 64, 0, Teacher([weights.load_network(teacher)]))
    start = assembly.create(resolve("distill", **{**training_data.SHORT, **changes}), CPU).network
    assert disagreement(judge, weights.load_network(outcome.best)) < left * disagreement(judge, start)


def test_disagreement_is_counted_over_all_pairs(teacher_file):
    source = unlabeled().split("val")
    teacher = Teacher([weights.load_network(teacher_file)])
    judge = held_out.create(source, 12, 0, teacher)
    network = trained_looking("hardnet", 3, width=4, dim=32)
    patches = source.sample(judge.points, judge.views[:, None], 32)[:, 0]
    with torch.no_grad():
        one, other = network(patches), teacher([patches])
    pairs = [float(one[i] @ one[j] - other[i] @ other[j]) ** 2 for i in range(12) for j in range(12)]
    assert disagreement(judge, network) == pytest.approx(np.mean(pairs) ** 0.5, rel=1e-4)
    assert disagreement(judge, weights.load_network(teacher_file)) < 1e-6
    assert not len(held_out.create(source, 12, 0)), "without a teacher nobody can judge"


def test_where_points_have_tracks_they_judge_and_the_loss_stands_beside_the_teacher(teacher_file, tmp_path):
    changes = {"teacher": (teacher_file,), "batcher": "pairs", "loss_weight": 1.0, "steps": 3, "validate_every": 3}
    outcome, _ = short_run("distill", tmp_path / "run", **changes)
    assert set(outcome.measured) == {"fpr95", "confusion"}
    line = read_metrics(tmp_path / "run" / "metrics.jsonl")[0]
    parts = {name.removeprefix("loss/") for name in line if name.startswith("loss/")}
    assert {"teacher_cosine", "teacher_similarity", "positive", "negative"} <= parts


def test_bits_and_equal_sizes_are_taught_by_the_same_recipe(teacher_file, tmp_path):
    for name, options in {"strided": {"dim": 64, "kind": "binary"}, "hardnet": {"dim": 32, "dropout": 0.0}}.items():
        changes = {"teacher": (teacher_file,), "network": name, "network_options": {"width": 4, **options}, "steps": 2}
        outcome, losses = short_run("distill", tmp_path / name, unlabeled(), **changes)
        assert np.isfinite(losses).all()
        assert weights.read_info(outcome.best).network == name


def test_the_student_names_its_teacher_and_a_run_goes_on_with_the_same_alone(teacher_file, tmp_path):
    source, run = unlabeled(), tmp_path / "run"
    outcome, _ = short_run("distill", run, source, teacher=(teacher_file,), steps=10)
    checksum = weights.read_info(teacher_file).sha256
    config = json.loads((run / "config.json").read_text())
    assert config["teacher"] == [teacher_file] and config["teacher_sha256"] == [checksum]
    record = weights.read_info(outcome.last).training
    assert record.config == config
    moved = save(tmp_path / "moved.safetensors")
    again = {"teacher": (moved,), "steps": 12, "resume": True}
    short_run("distill", run, source, **again)
    other = save(tmp_path / "other.safetensors", seed=9)
    with pytest.raises(UserError, match="was made with teacher_sha256"):
        short_run("distill", run, source, **{**again, "teacher": (other,)})
    with pytest.raises(UserError, match="has other weights than this run began with"):
        short_run("distill", tmp_path / "new", source, teacher=(other,), teacher_sha256=(checksum,))


def test_what_cannot_be_taught_is_said(teacher_file, tmp_path):
    changes = {"teacher": (teacher_file,), "teacher_similarity": 0.0, "network_options": {"width": 4, "dim": 16}}
    with pytest.raises(UserError, match="descriptors of 16 numbers have no cosine to the teacher's of 32"):
        short_run("distill", tmp_path / "run", unlabeled(), **changes)
    with pytest.raises(UserError, match="there is no model 'patchprnt'; did you mean patchprint"):
        short_run("distill", tmp_path / "run", unlabeled(), teacher=("patchprnt",))
