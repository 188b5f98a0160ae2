"""The server as a real process: its API and schema, its limits, what it refuses, and that it leaves nothing behind."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import cv2
import pytest

from patchprint import cli
from patchprint.matching.image_pair import MatchSettings
from support.checkout import ROOT
from support.documents import blocks
from support.known_images import texture
from support.serving import Served, form, serving, watched_process

pytestmark = pytest.mark.slow
SECONDS = 3.0


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with narrow limits that other machines can reach."""
    flags = ["--host", "0.0.0.0", "--max-seconds", str(SECONDS), "--max-upload-mb", "4", "--max-waiting", "3"]
    with serving(tmp_path_factory.mktemp("strict"), *flags, "--device", "cpu") as made:
        yield made
        assert "Traceback" not in "".join(made.said), "".join(made.said)


def test_the_api_answers_what_the_command_line_prints(
    server: Served, real_pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: tuple[tuple[dict[str, object], str], ...] = (
        ({"model": "hardnet.small"}, "--model hardnet.small"),
        ({"model": "sift", "mode": "ratio", "ratio": 0.7}, "--model sift --matcher ratio --ratio 0.7"),
        ({"model": "sift", "spread": "false", "max_size": 300}, "--model sift --no-spread --max-size 300"),
        ({"model": "sift", "geometry": "none"}, "--model sift --geometry none"),
    )
    for fields, flags in asked:
        status, answer = server.match(*real_pair, **fields, max_keypoints=300)
        assert status == 200, answer
        capsys.readouterr()
        assert cli.main(["match", *map(str, real_pair), *flags.split(), "--max-keypoints", "300", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert answer.pop("seconds") > 0 and said.pop("seconds") > 0
        assert answer == said and said["matches"] > 10


def test_the_schema_is_what_is_answered(server: Served, real_pair: tuple[Path, Path]) -> None:
    status, schema = server.ask("GET", "/openapi.json")
    assert status == 200 and set(schema["paths"]) == {"/api/match", "/api/choices"}
    parts = schema["components"]["schemas"]
    _, answer = server.match(*real_pair, model="sift", max_keypoints=50)
    assert set(answer) == set(parts["Answer"]["properties"]) == set(parts["Answer"]["required"])
    fields = set(MatchSettings.__dataclass_fields__)
    assert set(parts["Question"]["properties"]) == fields | {"photo_a", "photo_b"}
    assert parts["Question"]["required"] == ["photo_a", "photo_b"]
    for name, field in MatchSettings.__dataclass_fields__.items():
        assert parts["Question"]["properties"][name].get("default") == field.default
    _, choices = server.ask("GET", "/api/choices")
    assert {"sdgmnet", "sift"} <= set(choices["models"]) and "dog" in choices["detectors"]
    assert choices["limits"]["megapixels"] == 30


def test_the_document_shows_an_answer_as_it_is(server: Served, photos: tuple[Path, Path]) -> None:
    (example,) = (json.loads(block.code) for block in blocks(ROOT / "docs" / "serve.md") if block.language == "json")
    _, answer = server.match(*photos, model="sift")
    assert list(example) == list(answer)
    assert all(type(example[name]) is type(answer[name]) for name in answer)
    lists = [value for name, value in example.items() if isinstance(value, list) and name != "transform"]
    assert {len(each) for each in lists} == {example["matches"]} and sum(example["is_inlier"]) == example["inliers"]
    text = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    limits = server.ask("GET", "/api/choices")[1]["limits"]
    for flag, name in re.findall(r"\| `--max-([a-z-]+)` \|.*\| (\d+) \|", text):
        assert limits.pop(flag.replace("-", "_")) == float(name)
    assert limits == {}


def test_nothing_elsewhere_is_asked_for(server: Served, photos: tuple[Path, Path]) -> None:
    """Every address that the process looks up or connects to is recorded; the browser is watched in test_page.py."""
    assert server.match(*photos, model="sift")[0] == 200
    assert server.ask("GET", "/")[0] == server.ask("GET", "/config")[0] == server.ask("GET", "/theme.css")[0] == 200
    assert not server.turned_to.exists(), server.turned_to.read_text()


def test_the_record_of_addresses_works(tmp_path: Path) -> None:
    record = watched_process(
        tmp_path, "import socket; socket.getaddrinfo('localhost', 80); socket.getaddrinfo('192.0.2.7', 80)"
    )
    assert record == "look up 192.0.2.7\n"


def test_wrong_questions_are_answered_with_a_sentence(
    server: Served, photos: tuple[Path, Path], bad_files: dict[str, Path]
) -> None:
    for words, path in bad_files.items():
        status, answer = server.match(photos[0], path, model="sift")
        assert status in (400, 413) and set(answer) == {"error"} and words in answer["error"]
        assert server.match(path, photos[0], model="sift")[0] == status
    for fields, words in (
        ({"model": "sfit"}, "did you mean sift"),
        ({"model": "/etc/passwd"}, "there is no model"),
        ({"modle": "sift"}, "there is no field 'modle'; did you mean mode or model"),
        ({"max_keypoints": "many"}, "max_keypoints: input should be a valid integer"),
        ({"mode": "nearst"}, "mode: input should be 'mutual'"),
        ({"ratio": 7}, "ratio must lie in (0, 1], got 7"),
    ):
        status, answer = server.match(*photos, **fields)
        assert status == 400 and set(answer) == {"error"} and words in answer["error"], answer
    body, kind = form({"photo_a": photos[0]})
    status, answer = server.ask("POST", "/api/match", body, {"Content-Type": kind})
    assert status == 400 and "photo_b is missing" in answer["error"]
    for broken in (b"", b"{}", body[:100]):
        status, answer = server.ask("POST", "/api/match", broken, {"Content-Type": kind})
        assert status == 400 and set(answer) == {"error"}


def test_twenty_at_once_are_all_answered(server: Served, strict: Served, photos: tuple[Path, Path]) -> None:
    answers: dict[str, list[tuple[int, Any]]] = {"server": [], "strict": []}

    def ask(name: str, asked: Served) -> None:
        answers[name].append(asked.match(*photos, model="sift", max_keypoints=100))

    for name, asked in (("server", server), ("strict", strict)):
        asking = [threading.Thread(target=ask, args=(name, asked)) for _ in range(20)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    codes = {name: sorted(status for status, _ in given) for name, given in answers.items()}
    assert len(codes["server"]) == len(codes["strict"]) == 20
    # One is worked on, 16 and 3 may wait; what is quick may make room for more.
    assert set(codes["server"]) <= {200, 429} and codes["server"].count(200) >= 17
    assert set(codes["strict"]) <= {200, 429, 503} and codes["strict"].count(200) >= 1
    found = {json.dumps({**answer, "seconds": 0}) for status, answer in answers["server"] if status == 200}
    assert len(found) == 1
    assert all("try again" in answer["error"] for status, answer in answers["server"] if status == 429)


def test_work_without_end_is_given_up_and_the_next_is_answered(
    strict: Served, photos: tuple[Path, Path], tmp_path: Path
) -> None:
    large = tmp_path / "large.jpg"
    cv2.imwrite(str(large), texture(2400, 2400, seed=5), [cv2.IMWRITE_JPEG_QUALITY, 85])
    started = time.monotonic()
    status, answer = strict.match(large, large, model="sdgmnet", max_keypoints=20_000)
    assert status == 503 and answer["error"].startswith("this took longer than 3 seconds and was given up")
    assert time.monotonic() - started < SECONDS + 30  # a process may have had to start first
    assert strict.match(*photos, model="sift", max_keypoints=100)[0] == 200


def connect(server: Served) -> socket.socket:
    place = urlsplit(server.address)
    return socket.create_connection((place.hostname, place.port), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    return data


def test_a_body_that_is_too_large_is_refused_while_it_is_read(strict: Served) -> None:
    head = f"POST {{}} HTTP/1.1\r\nHost: {urlsplit(strict.address).netloc}\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    for path in ("/api/match", "/gradio_api/upload"):
        with connect(strict) as announced:
            announced.sendall(f"{head.format(path)}Content-Length: 900000000\r\n\r\n".encode())
            assert read_all(announced).startswith(b"HTTP/1.1 413 ")
        with connect(strict) as chunked:  # which does not say how much will come
            chunked.sendall(f"{head.format(path)}Transfer-Encoding: chunked\r\n\r\n".encode())
            sent = 0
            begin = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n'
            chunked.sendall(b"%x\r\n%b\r\n" % (len(begin), begin))
            try:
                while sent < 100_000_000:
                    chunked.sendall(b"100000\r\n" + bytes(0x100000) + b"\r\n")
                    sent += 0x100000
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert sent < 60_000_000  # the limit is 8 MB; the rest was on its way


def test_slow_and_silent_connections_are_closed(strict: Served) -> None:
    started = time.monotonic()
    with connect(strict) as slow, connect(strict) as silent, connect(strict) as half:
        head = f"POST /api/match HTTP/1.1\r\nHost: {urlsplit(strict.address).netloc}\r\n"
        slow.sendall(
            f"{head}Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000\r\n\r\n--x\r\n".encode()
        )
        half.sendall(b"GET / HTTP/1.1\r\nHost: a")
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 3 seconds" in answer
        read_all(silent)
        read_all(half)
    assert SECONDS - 0.5 < time.monotonic() - started < SECONDS + 10


def test_a_wide_address_is_warned_of(strict: Served, server: Served) -> None:
    said = "".join(strict.said)
    assert "warning: 0.0.0.0 can be reached from other machines" in said and "without a password" in said
    assert "warning" not in "".join(server.said)


def upload(server: Served, name: str, data: bytes) -> tuple[int, Any]:
    """What the page does with a photo."""
    body = (
        f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
        + data
        + b"\r\n--x--\r\n"
    )
    return server.ask("POST", "/gradio_api/upload", body, {"Content-Type": "multipart/form-data; boundary=x"})


def test_no_file_but_uploaded_ones_is_served(server: Served, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a secret of somebody")
    status, (path,) = upload(server, "../../up.png", b"contents")
    assert status == 200 and Path(path).is_relative_to(server.temporary) and ".." not in path
    assert server.ask("GET", f"/gradio_api/file={path}") == (200, b"contents")
    ours = path.rsplit("/", 2)[0]
    secret = f"{tmp_path}/secret.txt"
    up = "../" * 12
    for name in (
        secret,
        f"{ours}/{up}{secret[1:]}",
        quote(f"{ours}/{up}{secret[1:]}", safe=""),
        f"{ours}/{up.replace('.', '%2e')}{secret[1:]}",
        f"{ours}/{up.replace('/', '%2f')}{secret[1:]}",
        f"{ours}/{up.replace('..', '%252e%252e')}{secret[1:]}",
        f"..%5c..%5c{secret}",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "file:///etc/passwd",
        "http://192.0.2.1/photo.png",
        "https:%2f%2fexample.org/photo.png",
    ):
        for prefix in (
            "/gradio_api/file=",
            "/file=",
            "/gradio_api/file/",
            "/static/",
            "/assets/",
            "/gradio_api/proxy=",
        ):
            status, answer = server.ask("GET", prefix + name)
            assert status in (400, 403, 404), (prefix, name)
            assert b"secret of" not in (answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def test_the_page_reads_no_file_that_a_client_names(server: Served, photos: tuple[Path, Path]) -> None:
    """gradio would copy it, or fetch it, before our code sees it; in whichever field it stands."""
    _, config = server.ask("GET", "/config")
    show = next(each for each in config["dependencies"] if len(each["inputs"]) == 8 and len(each["outputs"]) == 7)
    _, (good,) = upload(server, "a.png", photos[0].read_bytes())

    def ask(path: str, place: int = 0) -> tuple[int, Any]:
        data = [*(file(good) for _ in range(2)), "sift", "sift", "dog", "mutual", 0.8, 100]
        data[place] = file(path)
        question = {"data": data, "fn_index": show["id"], "session_hash": "abcdef", "trigger_id": None}
        return server.ask(
            "POST", "/gradio_api/queue/join", json.dumps(question).encode(), {"Content-Type": "application/json"}
        )

    def file(path: str) -> Any:
        return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "x.png"}

    assert ask(good)[0] == 200
    assert b"pp-picture" in server.ask("GET", "/gradio_api/queue/data?session_hash=abcdef")[1]
    before = set(server.temporary.rglob("*"))
    for foreign in (
        str(photos[1]),
        "/etc/passwd",
        "http://192.0.2.1/photo.png",
        f"{good}/../../../../../etc/passwd",
        "",
    ):
        for place in (0, 3, 7):
            status, answer = ask(foreign, place)
            assert status == 403 and "only photos that were given to this page" in answer["error"]
    assert set(server.temporary.rglob("*")) == before


def test_a_page_of_another_server_may_not_ask(server: Served, photos: tuple[Path, Path]) -> None:
    body, kind = form({"photo_a": photos[0], "photo_b": photos[1]})
    assert server.ask("POST", "/api/match", body, {"Content-Type": kind, "Origin": "http://evil.example"})[0] == 403
    assert server.ask("GET", "/", headers={"host": "evil.example"})[0] == 403


def test_nothing_is_left_after_the_end(strict: Served) -> None:
    """The last of this server: also what was uploaded and cut off is gone, and its worker."""
    assert upload(strict, "photo.png", b"anything")[0] == 200
    assert list(strict.temporary.iterdir())
    workers = children_of(strict.process.pid)
    assert workers
    assert strict.stop() == 143
    assert list(strict.temporary.iterdir()) == []
    until = time.monotonic() + 10
    while alive := [each for each in workers if Path(f"/proc/{each}").exists()]:
        assert time.monotonic() < until, alive
        time.sleep(0.05)
    assert re.search(r"serving at http://127\.0\.0\.1:\d+", "".join(strict.said))


def children_of(process: int) -> list[int]:
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if re.search(rf"^PPid:\s+{process}$", status.read_text(), re.MULTILINE)
    ]
