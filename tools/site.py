"""Hook of mkdocs: pages of the site that are made from other files of the repository.

* documents that lie outside of ``docs/`` (MODELS.md, CONTRIBUTING.md, ...),
* the notebooks,
* try.html, the page of ``patchprint export``, to which the first page links,
* the API reference: one page for each package that ``import patchprint`` offers, with all of its public modules. Nothing is
  listed by hand, so a new module, loss or network is on its page without an edit.

Links are written as they work in the repository; here they are turned to where the files lie on the site.
"""

import importlib
import json
import pkgutil
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import patchprint
from patchprint.networks.weights import load_network
from patchprint.web import offline

ROOT = Path(__file__).resolve().parent.parent
# By their names on the site; everything in docs/ keeps its name.
PAGES = {
    "models.md": "MODELS.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
    "results.md": "results/README.md",
    "perf.md": "perf/README.md",
    "examples.md": "examples/README.md",
    "examples-cpp.md": "examples/cpp/README.md",
} | {
    f"notebooks/{file.stem}.md": f"docs/notebooks/{file.name}" for file in sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
}  # fmt: skip


TRY = (
    "[**Try it here, in this browser**](try.html): choose two images, or one and its turned copy. They do not leave your "
    "device; the page is [one file](serve.md#one-file-without-a-server) that works offline, on a phone too."
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    for section in config.nav or []:
        if "API" in section:
            section["API"] += [{name: f"api/{name}.md"} for name in packages()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, source in PAGES.items():
        if source.endswith(".ipynb"):
            files.append(File.generated(config, name, content=notebook_page(ROOT / source)))
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for name in packages():
        files.append(File.generated(config, f"api/{name}.md", content=package_page(name)))
    files.append(File.generated(config, "try.html", content=try_page()))
    for linked in (
        *sorted(ROOT.glob("results/**/*.svg")),
        *sorted(ROOT.glob("results/pictures/*.jpg")),
        *sorted(ROOT.glob("examples/*.py")),
    ):
        files.append(File.generated(config, linked.relative_to(ROOT).as_posix(), abs_src_path=str(linked)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    if name == "index.md":
        markdown = markdown.replace("<!-- try -->", TRY)
    if name == "api/index.md":
        markdown = markdown.replace("<!-- public names -->", name_table()).replace("<!-- packages -->", package_table())
    return move_links(markdown, name)


def move_links(markdown: str, page: str) -> str:
    """Return the Markdown of a page with links as they are on the site."""
    source = PAGES.get(page, f"docs/{page}")
    on_site = {place: name for name, place in PAGES.items()}

    def move(found: re.Match[str]) -> str:
        path, anchor = found.groups(default="")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = place.removeprefix("docs/") if place == source else on_site.get(place, place.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{anchor})"

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", move, markdown)


def notebook_page(file: Path) -> str:
    """The cells of a notebook as Markdown, below a link to the notebook itself."""
    parts = [f"[Download this notebook]({file.name})"]
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    title = parts.pop(1) if parts[1].startswith("# ") else f"# {file.stem}"
    return "\n\n".join([title, *parts])


def try_page() -> str:
    """The page of the smallest network."""
    network = load_network("patchprint.tiny")
    return offline.join_page(network, offline.graph_for(network))


def packages() -> list[str]:
    """Packages and modules that are attributes of ``patchprint``."""
    return sorted(name for name in patchprint.__all__ if isinstance(getattr(patchprint, name), ModuleType))


def package_page(name: str) -> str:
    """A package and its public modules, as instructions for mkdocstrings, below what it exports out of private modules."""
    package = getattr(patchprint, name)
    exported = [
        f"patchprint.{name}.{each}" for each in getattr(package, "__all__", ()) if _hidden(getattr(package, each))
    ]
    paths = [*exported, *public_modules(f"patchprint.{name}")]
    return "\n\n".join([f"# patchprint.{name}", _summary(package), *(f"::: {path}" for path in paths)])


def public_modules(path: str) -> Iterator[str]:
    """A module and, of a package, all modules in it whose names have no underscore in front."""
    yield path
    for found in pkgutil.iter_modules(getattr(importlib.import_module(path), "__path__", ())):
        if found.name.startswith("_"):
            continue
        if found.ispkg:
            yield from public_modules(f"{path}.{found.name}")
        else:
            yield f"{path}.{found.name}"


def name_table() -> str:
    rows = ["| name | |", "|---|---|"]
    for name in sorted(patchprint.__all__, key=str.lower):
        thing = getattr(patchprint, name)
        if callable(thing):
            rows.append(f"| [`patchprint.{name}`][{thing.__module__}.{thing.__qualname__}] | {_summary(thing)} |")
    return "\n".join(rows)


def package_table() -> str:
    rows = [f"| [`patchprint.{name}`]({name}.md) | {_summary(getattr(patchprint, name))} |" for name in packages()]
    return "\n".join(["| package | |", "|---|---|", *rows])


def _hidden(thing: object) -> bool:
    """Defined in a module that no page shows by itself."""
    return callable(thing) and any(part.startswith("_") for part in getattr(thing, "__module__", "").split("."))


def _summary(thing: object) -> str:
    return re.sub(r"``?", "`", (thing.__doc__ or "").strip().partition("\n")[0])
