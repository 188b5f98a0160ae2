"""An audit of a process and of all Python processes below it: who reaches for the network, and which files are written.

Python reads this file when it starts with its folder on PYTHONPATH. What is found goes to AUDIT_LOG, a line for each; files
below the folders of AUDIT_ALLOWED may be written, and machines other than this one may not be looked up or connected to.
"""

import ipaddress
import os
import socket
import sys

_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_NEW_NAMES = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1}  # which argument is the new name
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_log = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_allowed = [os.path.realpath(place) for place in os.environ["AUDIT_ALLOWED"].split(os.pathsep)]


def _is_here(host):
    """Whether a host is this machine."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode()
    if host in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as own:
        try:
            own.bind((host, 0))  # only to addresses of this machine
        except OSError:
            return False
    return True


def _may_be_written(path):
    place = os.path.realpath(os.fsdecode(path))
    return any(place == each or place.startswith(each.rstrip(os.sep) + os.sep) for each in _allowed)


def _problem(event, args):
    if event in _CONNECTS and isinstance(args[1], tuple) and not _is_here(args[1][0]):
        return f"{event} {args[1]}"
    if event in _LOOKUPS and not _is_here(args[0]):
        return f"{event} {args[0]}"
    path = None
    if event == "open" and isinstance(args[2], int) and args[2] & _WRITING:
        path = args[0]
    elif event in _NEW_NAMES and not (event == "os.mkdir" and os.path.isdir(args[0])):
        path = args[_NEW_NAMES[event]]
    if isinstance(path, (str, bytes, os.PathLike)) and not _may_be_written(path):
        return f"{event} {os.fsdecode(path)}"
    return None


def _hook(event, args):
    try:
        problem = _problem(event, args)
    except Exception as error:  # an exception in a hook would be one of the program
        problem = f"the audit failed at {event}: {error!r}"
    if problem:
        os.write(_log, f"{problem} by {' '.join(sys.argv)[:60]!r}\n".encode(errors="replace"))


sys.addaudithook(_hook)
