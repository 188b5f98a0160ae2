"""Write files and folders so that a crash, a full disk or a second writer never destroys what was there before.

Every folder that patchprint writes has a marker ``.patchprint``, which says what made it and what it contains. Only such a
folder is ever replaced or emptied, and only while nothing else lies in it.
"""

from patchprint.common.files._folders import atomic_folder, claim_folder, mark_folder, refuse_folder, remove_folder
from patchprint.common.files._single import (
    MARKER,
    atomic_file,
    cache_folder,
    only_writer,
    refuse_file,
    refuse_overlap,
    refuse_overwrite,
    saying_what_failed,
    temporary_folder,
    write_json,
    write_text,
)

__all__ = [
    "MARKER", "atomic_file", "atomic_folder", "cache_folder", "claim_folder", "mark_folder", "only_writer", "refuse_file",
    "refuse_folder", "refuse_overlap", "refuse_overwrite", "remove_folder", "saying_what_failed", "temporary_folder",
    "write_json", "write_text",
]  # fmt: skip
