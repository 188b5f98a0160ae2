"""The published splits of HPatches: which sequences are for testing. The others of a, b and c are for training."""

from __future__ import annotations

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
}
_PREFIX = {"full": ("i_", "v_"), "illum": ("i_",), "view": ("v_",)}


def is_test(split: Split, sequence: str) -> bool:
    """Whether a sequence (``i_ajuntament``) is for testing; all sequences of full, illum and view are, or left out."""
    if split in _PREFIX:
        return sequence.startswith(_PREFIX[split])
    return any(
        sequence in {f"{kind}_{name}" for name in names.split()} for kind, names in zip("iv", _TEST[split], strict=True)
    )
