"""A self-contained HTML page of sections and parts, in a single file that can be sent by mail.

A part is a table or a dataclass with the template that shows it: charts, images, scenes, and text and code, which are here.
A page loads nothing: styles, images and the scripts that sort tables and turn scenes are written into it. All of it can be
read without scripts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from patchprint.common.errors import require
from patchprint.common.files import write_text
from patchprint.common.table import Table

ASSETS = Path(__file__).with_name("assets")


class Templated(Protocol):
    """Something that a page shows; ``template`` draws it under the name ``part``, a ``wide`` one has its row for itself."""

    template: ClassVar[str]

    @property
    def wide(self) -> bool: ...


Part = Templated | Table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    wide: bool = True

    template: ClassVar[str] = "text.html"


@dataclass(frozen=True)
class Code:
    """Commands or settings, as they are; with a ``summary`` they are folded up behind it."""

    text: str
    summary: str = ""
    wide: bool = True

    template: ClassVar[str] = "code.html"


@dataclass(frozen=True)
class Section:
    heading: str
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Page:
    """``verdict`` says in a sentence how good it is, ``lead`` what it is; ``origin`` is the small print at the end."""

    title: str
    verdict: str = ""
    lead: str = ""
    sections: Sequence[Section] = ()
    origin: str = ""


def render(page: Page) -> str:
    """Return the page as HTML; all text is escaped, in scripts too."""
    jinja2 = require("jinja2", extra="images")
    markup = require("markupsafe", extra="images").Markup
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FileSystemLoader(ASSETS)
    )
    environment.globals["asset"] = lambda name: markup((ASSETS / name).read_text(encoding="utf-8"))
    kinds = {getattr(part, "template", "table") for section in page.sections for part in section.parts}
    scripts = [name for kind, name in (("table", "sort.js"), ("scene.html", "scene.js")) if kind in kinds]
    sections = [(f"part-{number}", section) for number, section in enumerate(page.sections, start=1)]
    values: dict[str, Any] = {"page": page, "sections": sections, "scripts": scripts}
    return environment.get_template("page.html").render(values)


def write(page: Page, path: str | Path) -> None:
    write_text(path, render(page))
