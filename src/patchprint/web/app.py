"""The FastAPI application: the HTTP API, and one static page that uses it."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from fastapi import FastAPI, Form, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.formparsers import MultiPartParser

import patchprint
from patchprint.common.errors import UserError, suggest
from patchprint.detectors import DETECTORS
from patchprint.features.model import LOWE_RATIO
from patchprint.matching.image_pair import Geometry, Mode
from patchprint.matching.matchers import matchers_with_ratio
from patchprint.web import api
from patchprint.web.limits import Limits
from patchprint.web.protection import Protection
from patchprint.web.sample_pairs import SAMPLES, sample_files

_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_FORM = Form(media_type="multipart/form-data")


def create_app(
    call: Callable[..., Any], ratios: Mapping[str, float | None], limits: Limits, host_names: Collection[str] = ()
) -> FastAPI:
    """Create the application.

    Args:
        call: `Worker.call` of a worker with a `MatchSession`.
        ratios: the models to offer, with their calibrated ratios.
        limits: limits of one request.
        host_names: allowed Host names (`Protection`).
    """
    # Keep uploads in memory, bounded by Protection: nothing is left on disk, and a full disk does not matter.
    MultiPartParser.spool_max_size = limits.request_bytes
    # FastAPI's documentation pages load scripts from a CDN, so they are off.
    app = FastAPI(title="patchprint", version=patchprint.__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Protection, limits=limits, host_names=host_names)
    for error in (UserError, RequestValidationError, StarletteHTTPException):
        app.add_exception_handler(error, _problem)

    @app.get("/api/choices")
    def choices() -> api.Choices:
        """List models, detectors, modes, sample images and limits of this server."""
        detectors = [name for name, each in DETECTORS.items() if importlib.util.find_spec(each.package)]
        return api.Choices(
            models={name: ratio or LOWE_RATIO for name, ratio in ratios.items()},
            baselines=list(get_args(api.Baseline)),
            detectors=sorted(detectors, key=api.DEFAULT.detector.__ne__),
            modes=sorted(get_args(Mode), key=api.DEFAULT.mode.__ne__),
            ratio_modes=list(matchers_with_ratio()),
            geometries=list(get_args(Geometry)),
            samples={name: (f"/samples/{a}", f"/samples/{b}") for name, (a, b) in SAMPLES.items()},
            limits=dataclasses.asdict(limits),
        )

    @app.post("/api/match", responses=_responses(api.MatchResponse))
    def match(request: Annotated[api.MatchRequest, _FORM]) -> JSONResponse:
        """Match two images."""
        return JSONResponse(call("match", request.images(), request.settings()))

    @app.post("/api/compare", responses=_responses(api.CompareResponse))
    def compare(request: Annotated[api.CompareRequest, _FORM]) -> JSONResponse:
        """Match two images with a model and with a baseline, on the same keypoints with the same settings."""
        return JSONResponse(call("compare", request.images(), request.settings(), request.baseline))

    @app.post("/api/patches", responses=_responses(api.PatchesResponse))
    def patches(request: Annotated[api.PatchesRequest, _FORM]) -> JSONResponse:
        """Return the patch of a keypoint and its nearest neighbors in the other image, for the model and the baseline."""
        more = request.baseline, request.side, request.keypoint
        return JSONResponse(call("patches", request.images(), request.settings(), *more))

    @app.get("/samples/{name}", include_in_schema=False)
    def sample(name: str) -> Response:
        if name not in sample_files():
            raise HTTPException(404)
        return Response(sample_files()[name], media_type="image/jpeg")

    for path, (name, kind) in _PAGE.items():
        contents = (Path(__file__).parent / "static" / name).read_bytes()
        app.add_route(path, partial(_send, contents, kind), include_in_schema=False)
    return app


def _responses(model: type) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}, "default": {"model": api.Problem, "description": "what is wrong, in one sentence"}}


async def _send(contents: bytes, kind: str, request: Request) -> Response:
    return Response(contents, media_type=kind)


async def _problem(request: Request, error: Exception) -> JSONResponse:
    """Return any error as one sentence."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": _sentence(error)}, 400)
    if isinstance(error, StarletteHTTPException):
        path, method = request.url.path, request.method
        plain = {404: f"there is no {path} here", 405: f"{path} takes no {method}"}
        return JSONResponse({"error": plain.get(error.status_code, error.detail)}, error.status_code)
    return JSONResponse({"error": str(error)}, getattr(error, "status", 400))


def _sentence(error: RequestValidationError) -> str:
    """Describe the first error of a form."""
    first = error.errors()[0]
    field = str(first["loc"][-1])
    if first["type"] == "extra_forbidden":
        return f"there is no field {field!r}; {suggest(field, api.PatchesRequest.model_fields)}"
    if first["type"] == "missing":
        return f"the field {field} is missing; send image_a and image_b as files of multipart/form-data"
    return f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
