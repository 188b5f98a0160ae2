"""Request and response types of the HTTP API; docs/serve.md shows how to use it."""

from dataclasses import fields
from pathlib import PurePath
from typing import Any, Literal, get_type_hints

from fastapi import UploadFile
from pydantic import BaseModel, ConfigDict, Field, create_model

from patchprint.common.types import Answer
from patchprint.detectors import DETECTORS
from patchprint.features.extract import DescribeSettings
from patchprint.matching.matchers import MatchSettings
from patchprint.web.session import Question, Upload

Baseline = Literal["sift", "rootsift"]
Point = tuple[float, float]


def _settings(kind: type[Any], *left_out: str) -> dict[str, Any]:
    """Return type and default of the fields of a settings class."""
    types = get_type_hints(kind)
    return {each.name: (types[each.name], each.default) for each in fields(kind) if each.name not in left_out}


_DESCRIBE, _MATCHING = _settings(DescribeSettings, "device", "engine"), _settings(MatchSettings)
_Settings: Any = create_model("_Settings", **_DESCRIBE, **_MATCHING)


class MatchRequest(_Settings):
    """Two images and the settings of ``patchprint match``, whose help explains them."""

    model_config = ConfigDict(extra="forbid")

    image_a: UploadFile = Field(description="first image: JPEG, PNG, WebP or BMP")
    image_b: UploadFile = Field(description="second image")

    def question(self) -> Question:
        """Return the uploads and their settings. Only the last part of a file name is kept; nothing here opens a file."""
        _ = DETECTORS[self.detector]  # raises UserError for a file of weights, which is for the command line alone
        sides = {"image_a": self.image_a, "image_b": self.image_b}
        images = [Upload(PurePath(file.filename or "").name or side, file.file.read()) for side, file in sides.items()]
        describe = DescribeSettings(**{name: getattr(self, name) for name in _DESCRIBE})
        return Question(images, describe, MatchSettings(**{name: getattr(self, name) for name in _MATCHING}))


class CompareRequest(MatchRequest):
    """The same with a baseline."""

    baseline: Baseline = Field("sift", description="matched on the same keypoints with the same settings")


class PatchesRequest(CompareRequest):
    """The same with a keypoint of one of the images."""

    side: Literal["a", "b"] = Field("a", description="the image of the keypoint")
    keypoint: int = Field(description="its number, counted from 0, strongest first")


class MatchResponse(BaseModel):
    """Matches of two images. Entry m of every list is match m; coordinates are pixels of the images as stored."""

    model: str
    keypoints_a: int = Field(description="number of keypoints in the first image")
    keypoints_b: int
    matches: int = Field(description="number of matches")
    inliers: int | None = Field(description="number of matches that agree with one geometry; null without verification")
    geometry: Literal["homography", "fundamental"] | None
    verdict: Answer | None = Field(description="whether both images show the same place")
    probability: float | None = Field(description="that they do")
    transform: list[list[float]] | None = Field(description="3 x 3 homography or fundamental matrix, if one was found")
    indices: list[tuple[int, int]] = Field(description="numbers of the keypoints, counted from 0")
    points_a: list[Point]
    points_b: list[Point]
    distance: list[float] = Field(description="between the descriptors")
    is_inlier: list[bool] | None
    seconds: float = Field(description="time of computing")


class ModelResult(MatchResponse):
    """Matches of one model in a comparison."""

    ratio: float | None = Field(description="threshold of the ratio test that was used; null where there is none")
    sentence: str = Field(description="the verdict in words")


class CompareResponse(BaseModel):
    """Matches of a model and of a baseline."""

    result: ModelResult
    baseline: ModelResult
    size_a: tuple[int, int] = Field(description="width and height of the first image")
    size_b: tuple[int, int]
    all_a: list[Point] = Field(description="all keypoints of the first image, strongest first")
    all_b: list[Point]
    csv: str = Field(description="the file that patchprint match --out matches.csv writes")
    command: str = Field(description="the command line with the same result")


class Neighbor(BaseModel):
    """A keypoint of the other image."""

    keypoint: int
    distance: float
    patch: str = Field(description="PNG in base64")
    is_match: bool
    agrees: bool | None = Field(description="whether it lies where the geometry says; null without one")


class View(BaseModel):
    """A keypoint and its neighbors for one model."""

    model: str
    is_binary: bool = Field(description="distances are numbers of bits")
    patch: str = Field(description="PNG in base64")
    neighbors: list[Neighbor] = Field(description="the nearest in the other image by distance of the descriptors")


class PatchesResponse(BaseModel):
    """A keypoint and its neighbors for the model and the baseline."""

    side: Literal["a", "b"]
    keypoint: int
    views: list[View]


class Choices(BaseModel):
    """Valid values on this server: only what is installed. The default is the first of each list."""

    models: dict[str, float] = Field(description="with the ratio that each uses by default")
    baselines: list[str]
    detectors: list[str]
    matchers: list[str]
    matchers_with_ratio: list[str] = Field(description="those with a ratio test")
    geometries: list[str]
    samples: dict[str, tuple[str, str]] = Field(description="pairs of images to try, as addresses on this server")
    limits: dict[str, float]


class Problem(BaseModel):
    """An error in one sentence."""

    error: str
