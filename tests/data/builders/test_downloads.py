"""Downloads from a server on this machine: mirrors, https, checksums, hostile archives. Nothing leaves the machine."""

import contextlib
import functools
import hashlib
import http.server
import io
import shutil
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchprint import cli
from patchprint.common.registry import Registry
from patchprint.data.builders import downloads

pytest.importorskip("pooch")
DEAD = "http://127.0.0.1:9"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and misbehaves below /odd/."""

    elsewhere = ""  # where /odd/elsewhere redirects to

    def do_GET(self) -> None:
        odd = self.path.split("/")[2] if self.path.startswith("/odd/") else ""
        answers = {
            "page": (200, {"Content-Length": "10"}, b"<html>moved"[:10]),
            "cut": (200, {"Content-Length": "1000"}, b"half"),
            "elsewhere": (302, {"Location": f"{self.elsewhere}/toy.zip", "Content-Length": "0"}, b""),
        }
        if odd not in answers:
            return super().do_GET()
        status, headers, body = answers[odd]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

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
    """The folder of the server, with a set of one file in it; the cache is empty."""
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "www").mkdir()
    with zipfile.ZipFile(tmp_path / "www" / "toy.zip", "w") as bundle:
        bundle.writestr("toy/info.txt", "hello")
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
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(www, context) as address:
        yield address


Offer = Callable[..., downloads.PublicSet]


@pytest.fixture
def offer(www: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Make the toy a public set with the given mirrors."""

    def as_set(*urls: str, has_md5: bool = True) -> downloads.PublicSet:
        md5 = hashlib.md5((www / "toy.zip").read_bytes()).hexdigest() if has_md5 else None
        each = downloads.PublicSet("toy", "a toy", urls, "info.txt", "free", md5)
        monkeypatch.setattr(downloads, "SETS", Registry("public set", {**downloads.SETS, "toy": each}))
        return each

    return as_set


def test_second_mirror_and_cache(www: Path, server: str, offer: Offer) -> None:
    offer(f"{DEAD}/toy.zip", f"{server}/toy.zip")
    folder = downloads.locate("toy")
    assert (folder / "info.txt").read_text() == "hello"
    (www / "toy.zip").unlink()
    assert downloads.locate("toy") == folder, "the second time comes from the cache"


def test_https_comes_first_and_plain_http_only_with_a_checksum(offer: Offer) -> None:
    urls, secure = ("http://a/toy.zip", "https://b/toy.zip"), ("https://a/toy.zip", "https://b/toy.zip")
    assert offer(*urls).mirrors == (*secure, "http://a/toy.zip")
    assert offer(*urls, has_md5=False).mirrors == secure


def test_https_is_never_left(secure_server: str, server: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "elsewhere", server)
    offer(f"{secure_server}/odd/elsewhere/toy.zip")
    with pytest.raises(OSError, match="it redirects from https to http:"):
        downloads.locate("toy")
    monkeypatch.setattr(Handler, "elsewhere", secure_server)
    assert (downloads.locate("toy") / "info.txt").is_file()


@pytest.mark.parametrize("has_md5", [True, False])
@pytest.mark.parametrize("oddity", ["page", "cut"])
def test_a_mirror_that_misbehaves_is_followed_by_the_next(
    oddity: str, has_md5: bool, tmp_path: Path, secure_server: str, offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(f"{secure_server}/odd/{oddity}/toy.zip", has_md5=has_md5)
    assert cli.main(["data", "download", "toy"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"/odd/{oddity}/toy.zip (" in message and "--data-dir" in message, message
    assert list((tmp_path / "cache" / "archives").glob("*.zip")) == [] and not (tmp_path / "cache" / "toy").exists()
    offer(f"{secure_server}/odd/{oddity}/toy.zip", f"{secure_server}/toy.zip", has_md5=has_md5)
    assert (downloads.locate("toy") / "info.txt").is_file()


@pytest.mark.parametrize("kind", ["zip", "tar", "link"])
@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/patchprint-evil.txt", "a/../../evil.txt"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(
    kind: str, name: str, tmp_path: Path, www: Path, server: str, offer: Offer
) -> None:
    (www / "toy.zip").unlink()
    if kind == "zip":
        with zipfile.ZipFile(www / "toy.zip", "w") as bundle:
            bundle.writestr(name, "evil")
    else:
        with tarfile.open(www / "toy.zip", "w:gz") as tar:
            entry = tarfile.TarInfo("link" if kind == "link" else name)
            entry.type, entry.linkname, entry.size = (
                (tarfile.SYMTYPE, name, 0) if kind == "link" else (entry.type, "", 4)
            )
            tar.addfile(entry, io.BytesIO(b"evil"))
    offer(f"{server}/toy.zip")
    with pytest.raises(OSError, match="no mirror gives toy"):
        downloads.locate("toy")
    assert not list(tmp_path.rglob("*evil*")) and not Path("/tmp/patchprint-evil.txt").exists()


def test_own_copy_needs_no_network(tmp_path: Path, offer: Offer) -> None:
    offer(f"{DEAD}/toy.zip")
    (tmp_path / "mine" / "x").mkdir(parents=True)
    (tmp_path / "mine" / "x" / "info.txt").write_text("1\n")
    assert downloads.locate("toy", tmp_path / "mine") == tmp_path / "mine" / "x"
    with pytest.raises(ValueError, match="holds no complete copy of toy"):
        downloads.locate("toy", tmp_path / "mine" / "nothing")


def test_every_set_names_mirrors_and_license() -> None:
    for name in downloads.SETS:
        facts = downloads.describe(name)
        assert facts["mirrors"] and facts["license"]
    with pytest.raises(ValueError, match="there is no public set 'libery'"):
        downloads.locate("libery")
