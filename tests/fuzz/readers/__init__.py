"""Every reader of the package, with a small sample of what it reads; which files of it are damaged, and how.

Networks are exported as ONNX but never read from a user's file, so ONNX has no entry; the engines read what they wrote.
"""

from fuzz.reader import Reader
from fuzz.readers import described, learned, published, reconstructed, stored

READERS: dict[str, Reader] = {
    **learned.READERS,
    **described.READERS,
    **reconstructed.READERS,
    **stored.READERS,
    **published.READERS,
}
