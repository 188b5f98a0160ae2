"""A local page where a person drops two images and looks at the matches, and the same as an HTTP API.

server       one port and one worker process
app          routes, and the static page (static/)
api          requests and responses
protection   who may ask, how much, how slowly
session      cached matching of two uploaded images
workers      the process in which it runs
"""

from patchprint.web.limits import Limits
from patchprint.web.server import HOST, PORT, serve

__all__ = ["HOST", "PORT", "Limits", "serve"]
