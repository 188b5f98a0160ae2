"""The page and the API as one application, guarded, and the sweeping of what was uploaded long ago."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI

from patchprint.web import page
from patchprint.web.api import create_api
from patchprint.web.guard import Guard
from patchprint.web.limits import Limits
from patchprint.web.sample_pairs import write_examples
from patchprint.web.uploads import remove_old
from patchprint.web.workers import Workers

KEPT_SECONDS = 3600.0  # uploaded photos are removed after an hour, and all of them in the end
STORED_PHOTOS = 40  # as many of the largest allowed size may lie there at once
_SWEEP_SECONDS = 60.0


def create(
    workers: Workers,
    known: Mapping[str, str],
    ratios: Mapping[str, float | None],
    limits: Limits,
    folder: Path,
    names: frozenset[str] | None,
) -> Guard:
    """Page and API.

    Args:
        known, ratios: what `choices.offered` gave.
        folder: for uploads and examples.
        names: how browsers may call this server (`Guard`).
    """
    shown = folder / "examples"
    shown.mkdir()
    api = create_api(workers.ask, known, limits)
    api.router.lifespan_context = _sweeping(folder, shown)
    blocks = page.create_page(workers.ask, ratios, limits, write_examples(shown))
    gr.mount_gradio_app(
        api,
        blocks,
        path="/",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        mcp_server=False,
        pwa=False,
        enable_monitoring=False,
        show_error=False,
        max_file_size=limits.photo_bytes,
        **page.style(),
    )
    blocks.has_launched = (
        True  # which mounting does not say, and without which gradio reads files wherever a client says
    )
    return Guard(api, limits, folder, names, most_stored=STORED_PHOTOS * limits.photo_bytes)


def _sweeping(folder: Path, kept: Path) -> Any:
    """A lifespan during which old uploads are removed now and then."""

    async def sweep() -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            remove_old(folder, kept, KEPT_SECONDS)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(sweep())
        try:
            yield
        finally:
            task.cancel()

    return lifespan
