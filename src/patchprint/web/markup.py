"""Pieces of the page as HTML, out of what `looking` answers; every text in them is escaped."""

from __future__ import annotations

import base64
import html
import shlex
from collections.abc import Sequence
from typing import Any

from patchprint.matching.image_pair import MatchSettings

HEADER = """<header class="pp-header"><h1>patchprint</h1>
<p>Drop two photos: what looks alike to a descriptor, and do both show the same place?</p></header>"""
INVITATION = """<div class="pp-empty"><p>Choose two photos, or one of the examples.</p></div>"""
HINT = '<p class="pp-hint">Click a keypoint in the picture to see its patch and the ten nearest in the other photo.</p>'
_LEGEND = {
    "pp-agrees": "agrees with one geometry",
    "pp-disagrees": "does not",
    "pp-found": "keypoint",
    "pp-chosen": "looked at",
}
# A file that is no picture: the browser's sign for it is hidden, the sentence says what is wrong.
BROKEN = """() => {
  const show = (state) => (event) => {
    if (event.target.closest?.('.pp-photo')) event.target.style.visibility = state;
  };
  document.addEventListener('error', show('hidden'), true);
  document.addEventListener('load', show(''), true);
}"""
# A click tells where, in parts of the picture's width and height.
CLICKS = """
element.addEventListener('click', (event) => {
  const image = event.target.closest('img');
  if (!image) return;
  const box = image.getBoundingClientRect();
  trigger('select', {x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height});
});
"""


def escaped(text: object) -> str:
    """Text for HTML; braces too, which gradio's templates would read."""
    safe = html.escape(str(text))
    for character in "{}$`":
        safe = safe.replace(character, f"&#{ord(character)};")
    return safe


def problem(sentence: object) -> str:
    """What is wrong, where it is seen and read out."""
    return f'<p class="pp-problem" role="alert">{escaped(sentence)}</p>'


def picture(drawn: dict[str, Any], numbers: dict[str, Any]) -> str:
    """The two photos with lines between them; ``drawn`` is what `looking` says of the picture."""
    lines, data = drawn["lines"], drawn["jpeg"]
    inliers = "" if numbers["inliers"] is None else f", {numbers['inliers']} of them agree with one geometry"
    alt = f"both photos side by side with lines for {numbers['matches']} matches{inliers}"
    legend = "".join(f'<span class="{mark}">{text}</span>' for mark, text in _LEGEND.items())
    if lines < numbers["matches"]:
        legend += f"<span>{lines} of {numbers['matches']} matches drawn</span>"
    shape, source = f"--ratio: {drawn['ratio']:.4f}", f"data:image/jpeg;base64,{data}"
    return f'''<img class="pp-picture" style="{shape}" src="{source}" alt="{escaped(alt)}">
<p class="pp-legend">{legend}</p>'''


def comparison(of: Sequence[dict[str, Any]]) -> str:
    """The numbers of a model, those of a baseline, and the difference."""
    ours, theirs = of
    rows = [("Keypoints", f"{ours['keypoints_a']} and {ours['keypoints_b']}", "the same", "")]
    for name, label in (("matches", "Matches"), ("inliers", "Inliers")):
        here, there = ours[name], theirs[name]
        if here is None or there is None:
            rows.append((label, "not asked for", "not asked for", ""))
        else:
            rows.append((label, str(here), str(there), f"{here - there:+d}" if here != there else "0"))
    rows.append(("Verdict", _verdict(ours), _verdict(theirs), ""))
    if ours["ratio"] is not None or theirs["ratio"] is not None:
        rows.append(("Ratio", _ratio(ours), _ratio(theirs), ""))
    heads = "".join(f'<th scope="col">{escaped(text)}</th>' for text in (ours["model"], theirs["model"], "difference"))
    body = "".join(
        f'<tr><th scope="row">{label}</th>' + "".join(f"<td>{escaped(cell)}</td>" for cell in cells) + "</tr>"
        for label, *cells in rows
    )
    verdict = f'<p class="pp-verdict">{escaped(_capital(ours["sentence"]))}</p>' if ours["sentence"] else ""
    return (
        f"""{verdict}<table class="pp-numbers"><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table>"""
    )


def taking_away(names: Sequence[str], settings: MatchSettings, table: str) -> str:
    """The matches as a file, and the command that gives the same."""
    data = base64.b64encode(table.encode()).decode()
    return f"""<p class="pp-away"><a class="pp-download" download="matches.csv" href="data:text/csv;base64,{data}">Download
matches (CSV)</a><code>{escaped(command(names, settings))}</code></p>"""


def command(names: Sequence[str], settings: MatchSettings) -> str:
    """What to type for the same answer."""
    usual = MatchSettings()
    words = ["patchprint", "match", *names]
    for name in ("model", "detector", "max_keypoints", "mode", "ratio"):
        value = getattr(settings, name)
        if value != getattr(usual, name):
            flag = "matcher" if name == "mode" else name.replace("_", "-")
            words += [f"--{flag}", str(value)]
    return shlex.join(words)


def patches(looked: dict[str, Any]) -> str:
    """The keypoint that is looked at, as each model sees it, and what is nearest to it in the other photo."""
    what = f"Keypoint {looked['keypoint']} of {looked['photo']}, and the nearest of the other photo by distance"
    rows = "".join(_row(view) for view in looked["views"])
    return f"""<section class="pp-look" aria-label="patches"><p>{escaped(what)}; ✓ is the match,
<span class="pp-green">green</span> where the geometry says.</p>{rows}</section>"""


def _row(view: dict[str, Any]) -> str:
    near = "".join(_patch(each, view["kind"]) for each in view["near"])
    name = escaped(view["model"])
    own = f'<figure class="pp-own"><img src="data:image/png;base64,{view["patch"]}" alt="its patch to {name}"></figure>'
    return f'<div class="pp-row"><h2>{name}</h2><div class="pp-patches">{own}{near}</div></div>'


def _patch(near: dict[str, Any], kind: str) -> str:
    distance = f"{near['distance']:.0f} bits" if kind == "binary" else f"{near['distance']:.3f}"
    marks = ["pp-right"] if near["agrees"] else []
    words = ["at the right place"] if near["agrees"] else []
    if near["is_match"]:
        marks.append("pp-match")
        words.append("the match")
    alt = ", ".join([f"patch at distance {distance}", *words])
    caption = f"✓ {distance}" if near["is_match"] else distance
    source = f"data:image/png;base64,{near['patch']}"
    return (
        f'<figure class="{" ".join(marks)}"><img src="{source}" alt="{alt}"><figcaption>{caption}</figcaption></figure>'
    )


def _verdict(numbers: dict[str, Any]) -> str:
    return {"same": "same place", "different": "not the same", "unsure": "perhaps", None: "not asked for"}[
        numbers["verdict"]
    ]


def _ratio(numbers: dict[str, Any]) -> str:
    return "" if numbers["ratio"] is None else f"{numbers['ratio']:.2f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
