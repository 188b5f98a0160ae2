"""Downloads from servers on this machine: mirrors, https, resuming, checksums. Nothing leaves the machine."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import shutil
import ssl
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchprint import cli
from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.data.builders import downloads
from support.full_disk import files_limited_to


class Handler(http.server.SimpleHTTPRequestHandler):
    """Knows ranges, remembers what was asked for, and misbehaves below /odd/."""

    asked: list[tuple[str, str | None]] = []  # noqa: RUF012
    others = ""  # where /odd/elsewhere leads

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.asked.append((self.path, wanted))
        if self.path.startswith("/odd/"):
            return getattr(self, "odd_" + self.path.split("/")[2])()
        if wanted is None:
            return super().do_GET()
        data = Path(self.translate_path(self.path)).read_bytes()
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(data):
            return self.send_error(416)
        return self.answer(206, data[start:], {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})

    def answer(self, status: int, data: bytes, headers: dict[str, str], announced: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(announced or len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def odd_page(self) -> None:
        self.answer(200, b"<html>please log in</html>", {})

    def odd_cut(self) -> None:
        self.answer(200, b"half", {}, announced=1000)

    def odd_chunks(self) -> None:
        self.answer(200, b"ff\r\ncut inside of a chunk", {"Transfer-Encoding": "chunked"})

    def odd_status(self) -> None:
        self.wfile.write(b"what is this\r\n\r\n")

    def odd_range(self) -> None:
        self.answer(206, b"from somewhere else", {"Content-Range": "bytes 7-25/26"})

    def odd_huge(self) -> None:
        self.answer(200, b"", {}, announced=1 << 60)

    def odd_length(self) -> None:
        self.answer(200, b"as long as it is", {"Content-Length": "many"})

    def odd_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(bytes(1 << 16))

    def odd_elsewhere(self) -> None:
        self.answer(302, b"", {"Location": f"{self.others}/toy.zip"})

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path, context: ssl.SSLContext | None = None) -> Iterator[str]:
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    if context is not None:
        running.socket = context.wrap_socket(running.socket, server_side=True)
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http{'s' if context else ''}://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.fixture
def www(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the servers, with a set of one file in it; the cache is empty."""
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    Handler.asked = []
    (tmp_path / "www").mkdir()
    with zipfile.ZipFile(tmp_path / "www" / "toy.zip", "w") as bundle:
        bundle.writestr("toy/info.txt", "hello " * 50_000)
    return tmp_path / "www"


@pytest.fixture
def server(www: Path) -> Iterator[str]:
    with serving(www) as address:
        yield address


@pytest.fixture
def secure_server(www: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with a certificate of its own, which this process trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(www, context) as address:
        yield address


Offer = Callable[..., downloads.PublicSet]


@pytest.fixture
def offer(www: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Make the toy a public set that is to be had at the given addresses."""

    def as_set(*urls: str, md5: str | None = "of the toy", sha256: str | None = None) -> downloads.PublicSet:
        if md5 == "of the toy":
            md5 = hashlib.md5((www / "toy.zip").read_bytes()).hexdigest()
        each = downloads.PublicSet("toy", "a toy", urls, "info.txt", "free", md5, sha256)
        monkeypatch.setitem(downloads.SETS, "toy", each)
        return each

    return as_set


DEAD = "http://127.0.0.1:9"


def archive_in(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "archives" / "toy-toy.zip"


def test_second_mirror_cache_and_recorded_checksum(tmp_path: Path, server: str, offer: Offer) -> None:
    offer(f"{DEAD}/toy.zip", f"{server}/toy.zip")
    folder = downloads.locate("toy")
    assert (folder / "info.txt").read_text().startswith("hello")
    assert downloads.locate("toy") == folder and len(Handler.asked) == 1, "the second time comes from the cache"
    note = archive_in(tmp_path).with_name("toy-toy.zip.sha256").read_text()
    assert note.split()[0] == hashlib.sha256(archive_in(tmp_path).read_bytes()).hexdigest()


def test_resumes_after_a_stop(tmp_path: Path, www: Path, server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip")
    part = archive_in(tmp_path).with_name("toy-toy.zip.part")
    part.parent.mkdir(parents=True)
    part.write_bytes((www / "toy.zip").read_bytes()[:100])
    assert (downloads.locate("toy") / "info.txt").is_file()
    assert Handler.asked == [("/toy.zip", "bytes=100-")]


def test_https_comes_first_and_plain_http_only_with_a_checksum(offer: Offer) -> None:
    urls = ("http://a/toy.zip", "https://b/toy.zip")
    secure = ("https://a/toy.zip", "https://b/toy.zip")
    assert offer(*urls).mirrors == (*secure, "http://a/toy.zip")
    assert offer(*urls, md5=None, sha256="0").mirrors == (*secure, "http://a/toy.zip")
    assert offer(*urls, md5=None).mirrors == secure


def test_https_is_used(secure_server: str, offer: Offer) -> None:
    offer(secure_server.replace("https:", "http:") + "/toy.zip", md5=None)
    assert (downloads.locate("toy") / "info.txt").is_file() and len(Handler.asked) == 1


def test_an_unknown_certificate_is_refused(secure_server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(f"{secure_server}/toy.zip")
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        downloads.locate("toy")


def test_https_is_never_left(secure_server: str, server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "others", server)
    offer(f"{secure_server}/odd/elsewhere/toy.zip")
    with pytest.raises(OSError, match="it leads from https to http:"):
        downloads.locate("toy")
    assert Handler.asked == [("/odd/elsewhere/toy.zip", None)]


def test_redirects_are_followed(server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "others", server)
    offer(f"{server}/odd/elsewhere/toy.zip")
    assert (downloads.locate("toy") / "info.txt").is_file()


ODD = ["page", "cut", "chunks", "status", "range", "huge", "length", "endless"]


@pytest.mark.parametrize("oddity", ODD)
def test_a_mirror_that_misbehaves_is_followed_by_the_next(
    oddity: str, tmp_path: Path, server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_LARGEST_ARCHIVE", 1 << 20)
    offer(f"{server}/odd/{oddity}/toy.zip", f"{server}/toy.zip")
    assert (downloads.locate("toy") / "info.txt").is_file()
    assert Handler.asked[0][0] == f"/odd/{oddity}/toy.zip"
    assert sorted(path.name for path in archive_in(tmp_path).parent.iterdir()) == ["toy-toy.zip", "toy-toy.zip.sha256"]


@pytest.mark.parametrize("oddity", ODD)
def test_what_is_wrong_with_the_only_mirror_is_one_sentence(
    oddity: str, server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(downloads, "_LARGEST_ARCHIVE", 1 << 20)
    offer(f"{server}/odd/{oddity}/toy.zip")
    assert cli.main(["data", "download", "toy"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"/odd/{oddity}/toy.zip (" in message and "--data-dir" in message, message


def test_a_bad_download_leaves_no_trace(tmp_path: Path, www: Path, secure_server: str, offer: Offer) -> None:
    """M4: a wrong page was recorded as the set's checksum, which then refused the right archive for ever."""
    whole = (www / "toy.zip").read_bytes()
    (www / "toy.zip").write_bytes(b"<html>please log in</html>")
    offer(f"{secure_server}/toy.zip", md5=None)
    with pytest.raises(OSError, match="is no zip or tar file"):
        downloads.locate("toy")
    assert list(archive_in(tmp_path).parent.iterdir()) == []
    (www / "toy.zip").write_bytes(whole)
    assert (downloads.locate("toy") / "info.txt").is_file()


def test_a_bad_archive_in_the_cache_is_fetched_again(tmp_path: Path, server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip")
    archive_in(tmp_path).parent.mkdir(parents=True)
    archive_in(tmp_path).write_bytes(b"cut short by an older version")
    assert (downloads.locate("toy") / "info.txt").is_file()


def test_wrong_checksum_is_refused(server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip", sha256="0" * 64)
    with pytest.raises(OSError, match="expected 0000"):
        downloads.locate("toy")
    offer(f"{server}/toy.zip", md5="0" * 32)
    with pytest.raises(OSError, match="does not have the md5 0000"):
        downloads.locate("toy")


def test_another_archive_than_the_recorded_one_is_refused(tmp_path: Path, www: Path, server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip")
    shutil.rmtree(downloads.locate("toy").parent)
    archive_in(tmp_path).unlink()
    with zipfile.ZipFile(www / "toy.zip", "w") as bundle:
        bundle.writestr("toy/info.txt", "changed")
    offer(f"{server}/toy.zip")
    with pytest.raises(OSError, match=r"differs from the copy recorded in .*toy-toy.zip.sha256; delete that if"):
        downloads.locate("toy")
    archive_in(tmp_path).with_name("toy-toy.zip.sha256").unlink()
    assert (downloads.locate("toy") / "info.txt").read_text() == "changed"


def test_two_downloads_at_once_are_told(tmp_path: Path, server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip")
    with (
        files.only_writer(tmp_path / "cache" / "archives" / "toy"),
        pytest.raises(UserError, match="another process is writing"),
    ):
        downloads.locate("toy")


def test_a_full_disk_is_named(server: str, offer: Offer, capsys: pytest.CaptureFixture[str]) -> None:
    offer(f"{server}/toy.zip")
    with files_limited_to(1000):
        assert cli.main(["data", "download", "toy"]) == 1
    assert "toy-toy.zip.part could not be written" in capsys.readouterr().err


def test_own_copy_needs_no_network(tmp_path: Path, server: str, offer: Offer) -> None:
    offer(f"{server}/toy.zip")
    (tmp_path / "mine" / "x").mkdir(parents=True)
    (tmp_path / "mine" / "x" / "info.txt").write_text("1\n")
    assert downloads.locate("toy", tmp_path / "mine") == tmp_path / "mine" / "x"
    with pytest.raises(ValueError, match="holds no complete copy of toy"):
        downloads.locate("toy", tmp_path / "mine" / "nothing")
    assert Handler.asked == []


def test_no_mirror_answers(offer: Offer) -> None:
    offer(f"{DEAD}/toy.zip")
    with pytest.raises(OSError, match=r"no mirror gives toy.*--data-dir"):
        downloads.locate("toy")


def test_every_set_names_mirrors_and_licence():
    assert {"phototour-liberty", "phototour-notredame-harris", "hpatches", "hpatches-sequences", "rome"} <= set(
        downloads.SETS
    )
    for name in downloads.SETS:
        facts = downloads.describe(name)
        assert facts["mirrors"] and facts["license"]
    with pytest.raises(ValueError, match="there is no public set 'libery'"):
        downloads.locate("libery")
