"""The published splits of HPatches: which sequences are for testing. The others of a, b and c are for training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Split = Literal["a", "b", "c", "full", "illum", "view"]

# As the authors of HPatches fixed them: names of the illumination (i_) and of the viewpoint (v_) sequences.
_TEST = {
    "a": (
        "ajuntament resort table troulos bologna lionnight porta zion brooklyn fruits books bridger whitebuilding kurhaus "
        "salon autannes tools santuario fog nijmegen",
        "courses coffeehouse abstract feast woman talent tabletop bees strand fest yard underground azzola eastsouth yuri "
        "soldiers man pomegranate birdwoman busstop",
    ),
    "b": (
        "fruits melon castle resort chestnuts kions kurhaus autannes duda partyfood ski dome greenhouse pencils porta "
        "lionday school bridger village fog",
        "astronautis bip charing woman feast yard churchill graffiti london sunseason posters bees apprentices birdwoman "
        "colors laptop there adam underground war",
    ),
    "c": (
        "ski table troulos melon tools kions londonbridge nijmegen boutique parking steps fog leuven dc partyfood pool "
        "castle bologna smurf crownnight",
        "azzola tempera machines coffeehouse graffiti artisans maskedman talent bees dirtywall blueprint war adam "
        "pomegranate busstop weapons gardens feast man wounded",
    ),
    "full": (
        "ajuntament autannes bologna books boutique bridger brooklyn castle chestnuts contruction crownday crownnight dc "
        "dome duda fenis fog fruits gonnenberg greenhouse greentea indiana kions ktirio kurhaus leuven lionday lionnight "
        "londonbridge melon miniature nescafe nijmegen nuts objects parking partyfood pencils pinard pool porta resort "
        "salon santuario school ski smurf steps table tools toy troulos veggies village whitebuilding yellowtent zion",
        "abstract adam apprentices artisans astronautis azzola bark bees beyus bip bird birdwoman blueprint boat bricks "
        "busstop calder cartooncity charing churchill circus coffeehouse colors courses dirtywall dogman eastsouth feast "
        "fest gardens grace graffiti home laptop london machines man maskedman pomegranate posters samples soldiers "
        "strand sunseason tabletop talent tempera there underground vitro wall wapping war weapons woman wormhole wounded "
        "yard yuri",
    ),
}
_PREFIX = {"full": ("i_", "v_"), "illum": ("i_",), "view": ("v_",)}


def is_test(split: Split, sequence: str) -> bool:
    """Whether a sequence (``i_ajuntament``) is for testing; all sequences of full, illum and view are, or left out."""
    if split in _PREFIX:
        return sequence.startswith(_PREFIX[split])
    return sequence in _published(split)


def published_split(sequences: Iterable[str]) -> Split | None:
    """The split a, b, c or full whose published test sequences are these and no others; None for any other data."""
    found = set(sequences)
    splits: tuple[Split, ...] = ("a", "b", "c", "full")
    return next((split for split in splits if _published(split) == found), None)


def _published(split: Split) -> set[str]:
    return {f"{kind}_{name}" for kind, names in zip("iv", _TEST[split], strict=True) for name in names.split()}
