"""The FastAPI application: the HTTP API, and one static page that uses it."""

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from fastapi import FastAPI, Form, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.formparsers import MultiPartParser

import patchprint
from patchprint.common.errors import UserError, require, suggest
from patchprint.data.builders.bundled_images import image
from patchprint.data.builders.homographies import render_views
from patchprint.detectors import DETECTORS, DetectSettings
from patchprint.features.model import LOWE_RATIO
from patchprint.interop.images import encode_image
from patchprint.matching.matchers import DEFAULT_MATCHER, MATCHERS, Geometry, matchers_with_ratio
from patchprint.web import api
from patchprint.web.limits import Limits
from patchprint.web.protection import Protection

_PAGE = {"page.html": "text/html", "page.css": "text/css", "images.js": "text/javascript", "page.js": "text/javascript"}
# Two views, an image warped, and two different things, of scikit-image.
_SAMPLES = {
    "Two views": ("motorcycle-left.jpg", "motorcycle-right.jpg"),
    "Turned and relit": ("coffee.jpg", "coffee-warped.jpg"),
    "Different things": ("coffee.jpg", "rocket.jpg"),
}
_FORM = Form(media_type="multipart/form-data")


def create_app(
    call: Callable[..., Any], ratios: Mapping[str, float | None], limits: Limits, host_names: Collection[str] = ()
) -> FastAPI:
    """Create the application; ``call`` is `MethodCalls.call` to a `MatchSession` with models that have these ``ratios``."""
    # Keep uploads in memory, bounded by Protection: nothing is left on disk, and a full disk does not matter.
    MultiPartParser.spool_max_size = limits.request_bytes
    # FastAPI's documentation pages load scripts from a CDN, so they are off.
    app = FastAPI(title="patchprint", version=patchprint.__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Protection, limits=limits, host_names=host_names)
    for error in (UserError, RequestValidationError, StarletteHTTPException):
        app.add_exception_handler(error, _problem)

    @app.get("/api/choices")
    def choices() -> api.Choices:
        """List models, detectors, matchers, sample images and limits of this server."""
        detectors = [name for name, each in DETECTORS.items() if importlib.util.find_spec(each.package)]
        return api.Choices(
            models={name: ratio or LOWE_RATIO for name, ratio in ratios.items()},
            baselines=list(get_args(api.Baseline)),
            detectors=sorted(detectors, key=DetectSettings.detector.__ne__),
            matchers=sorted(MATCHERS, key=DEFAULT_MATCHER.__ne__),
            matchers_with_ratio=matchers_with_ratio(),
            geometries=list(get_args(Geometry)),
            samples={name: (f"/samples/{a}", f"/samples/{b}") for name, (a, b) in _SAMPLES.items()},
            limits=dataclasses.asdict(limits),
        )

    @app.post("/api/match", responses=_responses(api.MatchResponse))
    def match(request: Annotated[api.MatchRequest, _FORM]) -> JSONResponse:
        """Match two images."""
        return JSONResponse(call("match", request.question()))

    @app.post("/api/compare", responses=_responses(api.CompareResponse))
    def compare(request: Annotated[api.CompareRequest, _FORM]) -> JSONResponse:
        """Match two images with a model and with a baseline, on the same keypoints with the same settings."""
        return JSONResponse(call("compare", request.question(), request.baseline))

    @app.post("/api/patches", responses=_responses(api.PatchesResponse))
    def patches(request: Annotated[api.PatchesRequest, _FORM]) -> JSONResponse:
        """Return the patch of a keypoint and its nearest neighbors in the other image, for the model and the baseline."""
        return JSONResponse(call("patches", request.question(), request.baseline, request.side, request.keypoint))

    @app.get("/samples/{name}", include_in_schema=False)
    def sample(name: str) -> Response:
        if name not in _sample_files():
            raise HTTPException(404)
        return Response(_sample_files()[name], media_type="image/jpeg")

    for name, kind in _PAGE.items():
        contents = (Path(__file__).parent / "static" / name).read_bytes()
        path = "/" if name == "page.html" else f"/{name}"
        app.add_route(path, functools.partial(_send, contents, kind), include_in_schema=False)
    return app


@functools.cache
def _sample_files() -> dict[str, bytes]:
    """Return the JPEG files in _SAMPLES by name."""
    left, right, _ = require("skimage.data", extra="web").stereo_motorcycle()
    coffee = image("coffee")
    _, warped = render_views(coffee, count=1, seed=7, strength=1.2)
    images = {"coffee.jpg": coffee, "coffee-warped.jpg": warped.image, "rocket.jpg": image("rocket")}
    images = {name: np.repeat(gray[..., None], 3, -1) for name, gray in images.items()}
    images |= {"motorcycle-left.jpg": left, "motorcycle-right.jpg": right}
    return {name: encode_image(pixels, ".jpg") for name, pixels in images.items()}


def _responses(model: type) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}, "default": {"model": api.Problem, "description": "what is wrong, in one sentence"}}


async def _send(contents: bytes, kind: str, request: Request) -> Response:
    return Response(contents, media_type=kind)


async def _problem(request: Request, error: Exception) -> JSONResponse:
    """Return any error as one sentence."""
    sentence, status = str(error), getattr(error, "status", 400)
    if isinstance(error, RequestValidationError):
        sentence = _first_of_form(error)
    elif isinstance(error, StarletteHTTPException):
        path, status = request.url.path, error.status_code
        plain = {404: f"there is no {path} here", 405: f"{path} takes no {request.method}"}
        sentence = plain.get(status, error.detail)
    return JSONResponse({"error": sentence}, status)


def _first_of_form(error: RequestValidationError) -> str:
    first = error.errors()[0]
    field = str(first["loc"][-1])
    if first["type"] == "extra_forbidden":
        return f"there is no field {field!r}; {suggest(field, api.PatchesRequest.model_fields)}"
    if first["type"] == "missing":
        return f"the field {field} is missing; send image_a and image_b as files of multipart/form-data"
    return f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
