"""Hook of mkdocs that adds pages and figures from elsewhere in the repository to the site.

Links are written as they work in the repository; here they are turned to where the files lie on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
# By their names on the site; everything in docs/ keeps its name.
PAGES = {
    "models.md": "MODELS.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "results.md": "results/README.md",
    "perf.md": "perf/README.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, source in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for figure in sorted(ROOT.glob("results/**/*.svg")):
        files.append(File.generated(config, figure.relative_to(ROOT).as_posix(), abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return move_links(markdown, page.file.src_uri)


def move_links(markdown: str, page: str) -> str:
    """Return the Markdown of a page with links as they are on the site."""
    source = PAGES.get(page, f"docs/{page}")
    on_site = {place: name for name, place in PAGES.items()}

    def move(found: re.Match[str]) -> str:
        path, anchor = found.groups(default="")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = on_site.get(place, place.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{anchor})"

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", move, markdown)
