"""What a person sees: two photos, the choices, a picture of the matches, numbers beside SIFT, and the patches of a keypoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import gradio as gr

from patchprint.common.errors import UserError
from patchprint.detectors import DETECTORS
from patchprint.features.model import LOWE_RATIO
from patchprint.matching.image_pair import MatchSettings, Mode
from patchprint.matching.matchers import matchers_with_ratio
from patchprint.web import markup
from patchprint.web.limits import Limits
from patchprint.web.looking import BASELINES, Photo

Ask = Callable[..., dict[str, Any]]
KEYPOINTS = 2048  # at the start; fewer than the command line takes, for a quick first answer
MOST_KEYPOINTS = 8192
_STYLE = Path(__file__).with_name("page.css")
_USUAL = MatchSettings()


def create_page(
    ask: Ask, ratios: Mapping[str, float | None], limits: Limits, examples: Mapping[str, tuple[str, str]]
) -> gr.Blocks:
    """The page.

    Args:
        ask: `Workers.ask`.
        ratios: the calibrated ratio of every model that can be chosen, the one chosen at the start first.
        examples: pairs of files by name.
    """
    first = next(iter(ratios))

    def question(a: Chosen, b: Chosen, model: str, detector: str, mode: Mode, ratio: float, count: float) -> Question:
        kept = round(ratio, 2) if mode in matchers_with_ratio() else None
        settings = MatchSettings(model, detector, int(count), mode=mode, ratio=kept)
        return [_read(*each) for each in (a, b) if each is not None], settings

    def show(a: Chosen, b: Chosen, baseline: str, *choices: Any) -> tuple[Any, ...]:
        if a is None and b is None:
            return hidden("", markup.INVITATION)
        try:
            photos, settings = question(a, b, *choices)
            for photo in photos:  # the first may be wrong while the second is not there yet
                limits.check_photo(photo.data, photo.name)
            if len(photos) < 2:
                return hidden("", markup.INVITATION)
            shown = ask("show", photos, settings, baseline=baseline)
        except UserError as error:
            return hidden(markup.problem(error), markup.INVITATION)
        return (
            "",
            markup.picture(shown["picture"], shown["numbers"][0]),
            gr.Row(visible=True),
            markup.comparison(shown["numbers"]),
            markup.taking_away([photo.name for photo in photos], settings, shown["csv"]),
            None,
            markup.HINT,
        )

    def hidden(told: str, picture: str) -> tuple[Any, ...]:
        return told, picture, gr.Row(visible=False), "", "", None, ""

    def look(spot: dict[str, Any], a: Chosen, b: Chosen, baseline: str, *choices: Any) -> tuple[Any, ...]:
        if a is None or b is None:
            return "", gr.skip(), gr.skip(), ""
        try:
            photos, settings = question(a, b, *choices)
            looked = ask("look", photos, settings, spot=spot, baseline=baseline)
        except UserError as error:
            return markup.problem(error), gr.skip(), gr.skip(), ""
        number = looked["keypoint"] if looked["side"] == 0 else None
        return "", markup.picture(looked["picture"], looked["numbers"]), number, markup.patches(looked)

    def look_at_click(event: gr.EventData, *inputs: Any) -> tuple[Any, ...]:
        return look({"x": float(event.x), "y": float(event.y)}, *inputs)

    def look_at_number(number: float | None, *inputs: Any) -> tuple[Any, ...]:
        return look({"number": int(number)}, *inputs) if number is not None else ("", gr.skip(), gr.skip(), markup.HINT)

    def own_ratio(model: str) -> Any:
        return gr.Slider(value=ratios[model] or LOWE_RATIO)

    def ratio_in_use(mode: Mode) -> Any:
        return gr.Slider(interactive=mode in matchers_with_ratio())

    with gr.Blocks(title="patchprint", analytics_enabled=False, fill_width=True) as page:
        _html(markup.HEADER)
        with gr.Row(elem_id="pp-desk", equal_height=False):
            with gr.Column(scale=2, min_width=320, elem_id="pp-question"):
                with gr.Row():
                    a, b = (_photo(label) for label in ("First photo", "Second photo"))
                with gr.Row(elem_id="pp-examples"):
                    buttons = {name: gr.Button(name, size="sm", min_width=80) for name in examples}
                with gr.Row():
                    model = gr.Dropdown(list(ratios), value=first, label="Descriptor", min_width=120)
                    baseline = gr.Dropdown(list(BASELINES), value=BASELINES[0], label="Compare with", min_width=120)
                with gr.Row():
                    detector = gr.Dropdown(list(DETECTORS), value=_USUAL.detector, label="Detector", min_width=120)
                    mode = gr.Dropdown(list(get_args(Mode)), value=_USUAL.mode, label="Rule", min_width=120)
                ratio = gr.Slider(0.5, 1.0, ratios[first] or LOWE_RATIO, step=0.01, label="Ratio", elem_id="pp-ratio")
                count = gr.Slider(
                    64, MOST_KEYPOINTS, KEYPOINTS, step=64, label="Keypoints per photo", elem_id="pp-count"
                )
            with gr.Column(scale=5, min_width=340, elem_id="pp-answer"):
                told = _html("", elem_id="pp-told")
                picture = _html(markup.INVITATION, js_on_load=markup.CLICKS, elem_id="pp-shown")
                with gr.Row(visible=False, elem_id="pp-below") as below:
                    with gr.Column(min_width=330, scale=3):
                        numbers = _html("", elem_id="pp-table")
                    with gr.Column(min_width=220, scale=2):
                        away = _html("", elem_id="pp-away")
                        number = gr.Number(
                            None,
                            label="Look at keypoint no. (first photo)",
                            precision=0,
                            minimum=0,
                            elem_id="pp-number",
                        )
                seen = _html("", elem_id="pp-seen")

        asked = [a, b, baseline, model, detector, mode, ratio, count]
        shown = {"fn": show, "inputs": asked, "outputs": [told, picture, below, numbers, away, number, seen]}
        quietly: dict[str, Any] = {
            "show_progress": "minimal",
            "api_visibility": "private",
            "trigger_mode": "always_last",
        }
        gr.on([a.change, b.change, detector.input, baseline.input, ratio.input, count.input], **shown, **quietly)
        model.input(own_ratio, model, ratio, api_visibility="private").then(**shown, **quietly)
        mode.input(ratio_in_use, mode, ratio, api_visibility="private").then(**shown, **quietly)
        looked_at = [told, picture, number, seen]
        picture.select(look_at_click, asked, looked_at, **quietly)
        number.input(look_at_number, [number, *asked], looked_at, **quietly)
        for name, button in buttons.items():
            button.click(lambda name=name: examples[name], None, [a, b], api_visibility="private")
    # Work is queued by `Workers`, which also says so; gradio's own queue would wait silently.
    page.queue(default_concurrency_limit=None, max_size=4 * limits.waiting)
    return page


def style() -> dict[str, Any]:
    """What the page looks like, for ``mount_gradio_app``; fonts are the system's."""
    theme = gr.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        text_size="sm",
        spacing_size="sm",
        radius_size="sm",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )
    return {"theme": theme, "css": _STYLE.read_text(encoding="utf-8"), "js": markup.BROKEN}


# A photo as its field gives it: the path of the file and its name, or None.
Chosen = tuple[str, str] | None
Question = tuple[list[Photo], MatchSettings]


def _read(path: str, name: str) -> Photo:
    try:
        return Photo(name, Path(path).read_bytes())
    except FileNotFoundError:
        raise UserError(f"{name} was given so long ago that it was removed; choose it again") from None


def _html(value: str, **options: Any) -> gr.HTML:
    return gr.HTML(value, apply_default_css=False, **options)


def _photo(label: str) -> gr.Image:
    """A field for a photo, by file, camera or clipboard.

    gradio's own would decode the picture; this one gives path and name of what was uploaded (`Guard` lets no other path pass).
    """
    field = gr.Image(
        label=label,
        sources=["upload", "webcam", "clipboard"],
        type="filepath",
        height=150,
        min_width=140,
        placeholder="Drop a photo",
        buttons=[],
        elem_classes="pp-photo",
    )

    def chosen(payload: Any) -> Chosen:
        if payload is None or payload.path is None:
            return None
        return payload.path, Path(payload.orig_name or payload.path).name

    # Set on the object: for a class of its own gradio would write a file beside this one.
    vars(field)["preprocess"] = chosen
    return field
