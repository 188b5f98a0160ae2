"""The HTTP API: two photos and settings in, what ``patchprint match A B --json`` prints out; /openapi.json has the schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from fastapi import FastAPI, Form, HTTPException, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

import patchprint
from patchprint.common.errors import UserError, suggest
from patchprint.detectors import DETECTORS
from patchprint.matching.image_pair import Geometry, MatchSettings, Mode
from patchprint.web.limits import Limits
from patchprint.web.looking import Photo

Ask = Callable[..., dict[str, Any]]
_USUAL = MatchSettings()


class Question(BaseModel):
    """Two photos and how they are matched; the fields are the flags of ``patchprint match``."""

    model_config = ConfigDict(extra="forbid")

    photo_a: UploadFile = Field(description="first photo: JPEG, PNG, WebP or BMP")
    photo_b: UploadFile = Field(description="second photo")
    model: str = Field(_USUAL.model, description="a name of /api/choices")
    detector: str = Field(_USUAL.detector, description="what finds keypoints, a name of /api/choices")
    max_keypoints: int = Field(_USUAL.max_keypoints, description="per photo, by response")
    max_size: int | None = Field(
        None, description="shrink photos whose longer side has more pixels; coordinates stay the photo's"
    )
    upright: bool = Field(_USUAL.upright, description="ignore the orientation of keypoints")
    spread: bool = Field(_USUAL.spread, description="give every part of a photo its share of the keypoints")
    exif: bool = Field(_USUAL.exif, description="turn photos as EXIF says")
    mode: Mode = Field(_USUAL.mode, description="which matches are kept")
    ratio: float | None = Field(None, description="threshold of the ratio test; by default the model's calibrated one")
    geometry: Geometry = Field(_USUAL.geometry, description="what the inliers must agree with; none skips it")

    def settings(self) -> MatchSettings:
        return MatchSettings(**{field.name: getattr(self, field.name) for field in dataclasses.fields(MatchSettings)})


class Answer(BaseModel):
    """What is known of two photos; row m of every list is match m, coordinates are pixels of the photos as they are stored."""

    model_config = ConfigDict(extra="forbid")

    model: str
    keypoints_a: int = Field(description="keypoints found in the first photo")
    keypoints_b: int
    matches: int = Field(description="how many")
    inliers: int | None = Field(description="how many agree with one geometry; null where none was asked for")
    geometry: Literal["homography", "fundamental"] | None
    verdict: Literal["same", "different", "unsure"] | None = Field(
        description="whether both photos show the same place"
    )
    probability: float | None = Field(description="that they do")
    transform: list[list[float]] | None = Field(
        description="3 x 3: the homography or fundamental matrix, if one was found"
    )
    indices: list[tuple[int, int]] = Field(description="numbers of the keypoints, counted from 0")
    points_a: list[tuple[float, float]]
    points_b: list[tuple[float, float]]
    distance: list[float] = Field(description="of the descriptors")
    is_inlier: list[bool] | None
    seconds: float = Field(description="of computing")


class Problem(BaseModel):
    """What is wrong, in one sentence."""

    error: str


class Choices(BaseModel):
    """Names that a question may hold, and the limits of this server."""

    models: list[str]
    detectors: list[str]
    modes: list[str]
    geometries: list[str]
    limits: dict[str, float]


def create_api(ask: Ask, models: Mapping[str, str], limits: Limits) -> FastAPI:
    """The application without the page; ``ask`` is `Workers.ask`.

    The pages with which FastAPI shows a schema fetch scripts from elsewhere, so there are none.
    """
    api = FastAPI(
        title="patchprint",
        version=patchprint.__version__,
        description="Matches of two photos by local patch descriptors; docs/serve.md has examples.",
        docs_url=None,
        redoc_url=None,
    )

    @api.get("/api/choices")
    def choices() -> Choices:
        """What can be asked for."""
        return Choices(
            models=list(models),
            detectors=list(DETECTORS),
            modes=list(get_args(Mode)),
            geometries=list(get_args(Geometry)),
            limits=dataclasses.asdict(limits),
        )

    problems = {
        400: "a wrong setting, or a file that is no picture",
        408: "it did not arrive in time",
        413: "a photo is too large",
        429: "too many ask at once",
        500: "a fault of patchprint",
        503: "it took too long and was given up",
    }
    responses: dict[int | str, dict[str, Any]] = {200: {"model": Answer}, 422: {"model": Problem}}
    responses |= {code: {"model": Problem, "description": text} for code, text in problems.items()}

    @api.post("/api/match", responses=responses)
    def match(asked: Annotated[Question, Form(media_type="multipart/form-data")]) -> JSONResponse:
        """Match two photos."""
        photos = [Photo(file.filename or side, file.file.read()) for side, file in _files(asked)]
        return JSONResponse(ask("match", photos, asked.settings()))

    api.add_exception_handler(UserError, _as_problem)
    api.add_exception_handler(RequestValidationError, _as_problem)
    api.add_exception_handler(StarletteHTTPException, _as_problem)
    return api


def _files(asked: Question) -> list[tuple[str, UploadFile]]:
    return [("photo_a", asked.photo_a), ("photo_b", asked.photo_b)]


async def _as_problem(request: Request, error: Exception) -> JSONResponse:
    """Whatever is wrong as one sentence."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": _sentence(error)}, 400)
    if isinstance(error, HTTPException | StarletteHTTPException):
        return JSONResponse({"error": str(error.detail)}, error.status_code)
    return JSONResponse({"error": str(error)}, getattr(error, "status", 400))


def _sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong with a form."""
    first = error.errors()[0]
    field = str(first["loc"][-1])
    if first["type"] == "extra_forbidden":
        return f"there is no field {field!r}; {suggest(field, Question.model_fields)}"
    if first["type"] == "missing":
        return f"the field {field} is missing; send photo_a and photo_b as files of multipart/form-data"
    return f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
