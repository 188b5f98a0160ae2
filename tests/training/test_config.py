"""The settings of a run: JSON, and values that cannot be."""

import json

import pytest

from patchprint.training import TrainConfig, resolve


def test_config_survives_json():
    config = resolve("hynet", sec=0.5, data=("a", "b"), freeze=("layer1",), network_options={"width": 8})
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert config.network_options == {"dropout": 0.3, "width": 8}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stepz": 3}, "did you mean steps"),
        ({"steps": 0}, "--steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"lr": -1.0}, "--lr is -1"),
        ({"lr": float("nan")}, "--lr is nan"),
        ({"views": 0}, "--views is 0"),
        ({"batch": 1}, "--batch is 1; give at least 2"),
        ({"average": 1.0}, "--average is 1"),
        ({"norm_penalty": -0.1}, "norm_penalty is -0.1"),
        ({"sec_momentum": 0.0}, "sec_momentum is 0"),
        ({"sec": 1.0, "norm_penalty": 0.1}, "give one of them"),
        ({"schedule": "cubic"}, "one of constant, linear, drops, cosine, one-cycle"),
        ({"loss_weight": 0.5}, "loss_weight is for distillation; give --teacher"),
        ({"patch_scale": 1e30}, "--patch-scale is 1e\\+30; it must be above 0, and at most 10000"),
        ({"teacher_scales": (24.0,)}, "no setting 'teacher_scales'"),
        ({"teacher": ("sdgmnet",), "teacher_cosine": 0.0, "teacher_similarity": 0.0}, "teaches nothing"),
        ({"teacher_cosine": -1.0}, "teacher_cosine is -1"),
    ],
)
def test_wrong_settings_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        resolve("hardnet", **changes)


def test_a_file_of_an_earlier_version_may_name_settings_that_are_gone():
    config = resolve("distill")
    assert TrainConfig.from_json({**config.to_json(), "teacher_scales": [], "teacher_light": True}) == config
