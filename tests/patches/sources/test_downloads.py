"""Downloads from a server on this machine: mirrors, resuming, checksums, hostile archives. Nothing leaves the machine."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from patchprint.patches.sources import downloads


class Handler(http.server.SimpleHTTPRequestHandler):
    """Knows ranges, and remembers what was asked for."""

    asked: list = []  # noqa: RUF012

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Range")))
        wanted = self.headers.get("Range")
        if wanted is None:
            return super().do_GET()
        data = Path(self.translate_path(self.path)).read_bytes()
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(data):
            return self.send_error(416)
        self.send_response(206)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    (tmp_path / "www").mkdir()
    Handler.asked = []
    handler = functools.partial(Handler, directory=str(tmp_path / "www"))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.fixture
def toy(tmp_path, server, monkeypatch):
    """A set of one file, behind a dead mirror and a living one."""
    with zipfile.ZipFile(tmp_path / "www" / "toy.zip", "w") as bundle:
        bundle.writestr("toy/info.txt", "hello " * 50_000)
    urls = ("http://127.0.0.1:9/toy.zip", f"{server}/toy.zip")
    each = downloads.PublicSet("toy", "a toy", urls, "info.txt", "free")
    monkeypatch.setitem(downloads.SETS, "toy", each)
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    return each


def test_second_mirror_cache_and_recorded_checksum(tmp_path, toy):
    folder = downloads.locate("toy")
    assert (folder / "info.txt").read_text().startswith("hello")
    assert downloads.locate("toy") == folder and len(Handler.asked) == 1, "the second time comes from the cache"
    archive = tmp_path / "cache" / "archives" / "toy-toy.zip"
    note = archive.with_name("toy-toy.zip.sha256").read_text()
    assert note.split()[0] == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_resumes_after_a_stop(tmp_path, toy):
    whole = (tmp_path / "www" / "toy.zip").read_bytes()
    part = tmp_path / "cache" / "archives" / "toy-toy.zip.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(whole[:100])
    assert (downloads.locate("toy") / "info.txt").is_file()
    assert Handler.asked == [("/toy.zip", "bytes=100-")]


def test_wrong_checksum_is_refused(toy, monkeypatch):
    wrong = downloads.PublicSet("toy", "a toy", toy.urls, "info.txt", "free", sha256="0" * 64)
    monkeypatch.setitem(downloads.SETS, "toy", wrong)
    with pytest.raises(ValueError, match="expected 0000"):
        downloads.locate("toy")
    monkeypatch.setitem(
        downloads.SETS, "toy", downloads.PublicSet("toy", "a toy", toy.urls, "info.txt", "free", md5="0" * 32)
    )
    with pytest.raises(ValueError, match="does not have the md5 0000"):
        downloads.locate("toy")


def test_own_copy_needs_no_network(tmp_path, toy):
    (tmp_path / "mine" / "x").mkdir(parents=True)
    (tmp_path / "mine" / "x" / "info.txt").write_text("1\n")
    assert downloads.locate("toy", tmp_path / "mine") == tmp_path / "mine" / "x"
    with pytest.raises(ValueError, match="holds no complete copy of toy"):
        downloads.locate("toy", tmp_path / "mine" / "nothing")
    assert Handler.asked == []


def test_no_mirror_answers(toy, monkeypatch):
    dead = downloads.PublicSet("toy", "a toy", toy.urls[:1], "info.txt", "free")
    monkeypatch.setitem(downloads.SETS, "toy", dead)
    with pytest.raises(OSError, match=r"no mirror of toy answers.*--data-dir"):
        downloads.locate("toy")


def hostile_tar(path, name, link=False):
    with tarfile.open(path, "w:gz") as bundle:
        entry = tarfile.TarInfo(name)
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        else:
            entry.size = 4
        bundle.addfile(entry, None if link else io.BytesIO(b"evil"))


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_climbing_paths_are_refused(tmp_path, name, kind):
    archive = tmp_path / f"bad.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr(name, "evil")
    else:
        hostile_tar(archive, name)
    (tmp_path / "inside").mkdir()
    with pytest.raises(ValueError, match="climbs out of the folder"):
        downloads.unpack(archive, tmp_path / "inside")
    assert list((tmp_path / "inside").iterdir()) == [] and not (tmp_path / "evil.txt").exists()


def test_links_and_damage_are_refused(tmp_path):
    hostile_tar(tmp_path / "link.tgz", "passwd", link=True)
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        downloads.unpack(tmp_path / "link.tgz", tmp_path)
    (tmp_path / "junk.zip").write_bytes(b"junk")
    with pytest.raises(ValueError, match="is no zip or tar file"):
        downloads.unpack(tmp_path / "junk.zip", tmp_path)


def test_every_set_names_mirrors_and_licence():
    assert {"phototour-liberty", "phototour-notredame-harris", "hpatches", "hpatches-sequences", "rome"} <= set(
        downloads.SETS
    )
    for name in downloads.SETS:
        facts = downloads.describe(name)
        assert facts["mirrors"] and facts["license"]
    with pytest.raises(ValueError, match="there is no public set 'libery'"):
        downloads.locate("libery")
