"""The local page where a person drops two photos and looks at the matches, and the same as an HTTP API.

serving      one port, a folder of its own, a worker, and their end
guard        every request: who may ask, for what, how much and how long
page         what a person sees (gradio)
api          what a program asks (FastAPI)
looking      what both answer, out of a bounded memory of photos and features
workers      processes that compute it and are ended when their time is over
"""

from patchprint.web.limits import Limits
from patchprint.web.serving import HOST, PORT, serve

__all__ = ["HOST", "PORT", "Limits", "serve"]
