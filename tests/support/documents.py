"""The documents of the repository: their code blocks, and the commands that they tell people to type."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.checkout import ROOT

# What is written for readers of today; the changelog also speaks of what is gone.
DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "perf/README.md", "results/README.md", "examples/README.md")
    for file in ROOT.glob(pattern)
    if file.name != "CHANGELOG.md"
)

NOT_RUN = "<!-- not run:"
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block; ``reason`` says why it cannot be run here, "" where it can."""

    language: str
    code: str
    reason: str
    line: int

    @property
    def lines(self) -> list[list[str]]:
        """The commands of a shell block as words, without comments; a line with ``&&`` is several."""
        if self.language != "sh":
            return []
        joined = self.code.replace("\\\n", " ").replace(" && ", "\n").splitlines()
        return [words for words in (shlex.split(line, comments=True) for line in joined) if words]


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def blocks(file: Path) -> Iterator[Block]:
    text = file.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(found["language"], found["code"], found["reason"] or "", line)


def commands(file: Path) -> Iterator[list[str]]:
    """The words after ``patchprint`` of every command in shell blocks and in tables."""
    lines = [words for block in blocks(file) for words in block.lines]
    in_tables = re.findall(r"\| `(patchprint [^`]+)` \|", file.read_text(encoding="utf-8"))
    for words in (*lines, *map(shlex.split, in_tables)):
        if "patchprint" in words and words[0] in ("patchprint", "torchrun"):
            yield without_redirection(words[words.index("patchprint") + 1 :])


def without_redirection(words: list[str]) -> list[str]:
    return words[: words.index(">")] if ">" in words else words
