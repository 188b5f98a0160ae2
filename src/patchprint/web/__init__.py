"""A local web page that matches two images, and the HTTP API behind it.

server       one port and one worker process
app          FastAPI application with the static page (static/)
api          request and response types
protection   Host and Origin checks, limits of requests
session      cached matching of two uploaded images
offline      one HTML file that matches two images without a server (``patchprint export MODEL --out try.html``)
"""

from patchprint.web.limits import Limits
from patchprint.web.server import HOST, PORT, serve

__all__ = ["HOST", "PORT", "Limits", "serve"]
