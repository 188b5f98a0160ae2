"""The server as a real process: its API and schema, its limits, what it refuses, and that it leaves nothing behind."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.features.extract import DescribeSettings
from patchprint.interop.images import image_size
from patchprint.matching.matchers import MatchSettings
from patchprint.web.server import bind
from support.checkout import ROOT
from support.documents import blocks
from support.known_images import texture
from support.serving import Served, form, serving

pytestmark = pytest.mark.slow
SECONDS = 3.0
HEAD = b"POST /api/match HTTP/1.1\r\nHost: HOST\r\nContent-Type: multipart/form-data; boundary=x\r\n"
PART = b'--x\r\nContent-Disposition: form-data; name="image_a"; filename="a.png"\r\n\r\n'


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with narrow limits that other machines can reach."""
    flags = ["--host", "0.0.0.0", "--host-name", "photos.lan", "--max-seconds", str(SECONDS)]
    flags += ["--max-upload-mb", "4", "--max-waiting", "3"]
    with serving(tmp_path_factory.mktemp("strict"), *flags, "--device", "cpu") as made:
        yield made
        assert "Traceback" not in "".join(made.stderr_lines), "".join(made.stderr_lines)


def test_the_api_answers_what_the_command_line_prints(
    server: Served, real_pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratio = {"model": "sift", "matcher": "ratio", "ratio": 0.7, "geometry": "none"}
    asked: tuple[tuple[dict[str, object], str], ...] = (
        ({"model": "patchprint.tiny"}, "--model patchprint.tiny"),
        (ratio, "--model sift --matcher ratio --ratio 0.7 --geometry none"),
        ({"model": "rootsift", "matcher": "mutual", "upright": True}, "--model rootsift --matcher mutual --upright"),
        ({"model": "sift", "spread": "false", "max_size": 300}, "--model sift --no-spread --max-size 300"),
    )
    for fields, flags in asked:
        status, answer = server.match(*real_pair, **fields, max_keypoints=300)
        assert status == 200, answer
        capsys.readouterr()
        printed = ["--max-keypoints", "300", "--json", "--out", str(tmp_path / "m.csv"), "--force"]
        assert cli.main(["match", *map(str, real_pair), *flags.split(), *printed]) == 0
        said = json.loads(capsys.readouterr().out)
        assert answer.pop("seconds") > 0 and said.pop("seconds") > 0
        assert answer == said and said["matches"] > 10
        compared = server.post("/api/compare", *real_pair, **fields, max_keypoints=300)[1]
        assert {name: compared["result"][name] for name in said} == said
        assert compared["csv"].encode() == (tmp_path / "m.csv").read_bytes()
        assert len(compared["all_a"]) == said["keypoints_a"] and compared["size_b"] == list(image_size(real_pair[1]))


def test_the_schema_is_what_is_answered(server: Served, images: tuple[Path, Path]) -> None:
    status, schema = server.ask("GET", "/openapi.json")
    assert status == 200 and set(schema["paths"]) == {"/api/match", "/api/compare", "/api/patches", "/api/choices"}
    parts = schema["components"]["schemas"]

    def check(answer: dict, name: str) -> dict:
        assert set(answer) == set(parts[name]["properties"]) == set(parts[name]["required"]), name
        return answer

    settings = {"model": "sift", "max_keypoints": 50}
    check(server.match(*images, **settings)[1], "MatchResponse")
    compared = check(server.post("/api/compare", *images, **settings)[1], "CompareResponse")
    check(compared["result"], "ModelResult")
    looked = check(server.post("/api/patches", *images, **settings, side="b", keypoint=7)[1], "PatchesResponse")
    check(check(looked["views"][0], "View")["neighbors"][0], "Neighbor")
    fields = {**DescribeSettings.__dataclass_fields__, **MatchSettings.__dataclass_fields__}
    del fields["device"], fields["engine"]  # the server's
    assert set(parts["MatchRequest"]["properties"]) == set(fields) | {"image_a", "image_b"}
    assert parts["MatchRequest"]["required"] == ["image_a", "image_b"]
    for name, field in fields.items():
        assert parts["MatchRequest"]["properties"][name].get("default") == field.default
    choices = check(server.ask("GET", "/api/choices")[1], "Choices")
    assert {"patchprint", "sift"} <= set(choices["models"]) and choices["detectors"][0] == "dog"
    assert choices["limits"]["megapixels"] == 30
    for sample in itertools.chain(*choices["samples"].values()):
        status, image = server.ask("GET", sample)
        assert status == 200 and cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR).shape[2] == 3


def test_the_document_shows_an_answer_as_it_is(server: Served, images: tuple[Path, Path]) -> None:
    (example,) = (json.loads(block.code) for block in blocks(ROOT / "docs" / "serve.md") if block.language == "json")
    _, answer = server.match(*images, model="sift")
    assert list(example) == list(answer)
    assert all(type(example[name]) is type(answer[name]) for name in answer)
    lists = [value for name, value in example.items() if isinstance(value, list) and name != "transform"]
    assert {len(each) for each in lists} == {example["matches"]} and sum(example["is_inlier"]) == example["inliers"]
    text = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    limits = server.ask("GET", "/api/choices")[1]["limits"]
    for flag, name in re.findall(r"\| `--max-([a-z-]+)` \|.*\| (\d+) \|", text):
        assert limits.pop(flag.replace("-", "_")) == float(name)
    assert limits == {}


def test_wrong_questions_are_answered_with_a_sentence(
    server: Served, images: tuple[Path, Path], bad_files: dict[str, Path]
) -> None:
    for words, path in bad_files.items():
        status, answer = server.match(images[0], path, model="sift")
        assert status in (400, 413) and set(answer) == {"error"} and words in answer["error"]
        assert server.match(path, images[0], model="sift")[0] == status
    for fields, words in (
        ({"model": "sfit"}, "did you mean sift"),
        ({"model": "/etc/passwd"}, "there is no model"),
        ({"modle": "sift"}, "there is no field 'modle'; did you mean model"),
        ({"max_keypoints": "many"}, "max_keypoints: input should be a valid integer"),
        ({"matcher": "nearst"}, "there is no matcher 'nearst'; did you mean nearest"),
        ({"detector": "dgo"}, "did you mean dog"),
        ({"detector": "/etc/own.safetensors"}, "there is no detector"),
        ({"engine": "float32"}, "there is no field 'engine'"),
        ({"ratio": 7}, "ratio must lie in (0, 1], got 7"),
    ):
        status, answer = server.match(*images, **fields)
        assert status == 400 and set(answer) == {"error"} and words in answer["error"], answer
    body, kind = form({"image_a": images[0]})
    status, answer = server.ask("POST", "/api/match", body, {"Content-Type": kind})
    assert status == 400 and "image_b is missing" in answer["error"]
    for broken in (b"", b"{}", body[:100]):
        status, answer = server.ask("POST", "/api/match", broken, {"Content-Type": kind})
        assert status == 400 and set(answer) == {"error"}


def test_twenty_at_once_are_all_answered(server: Served, strict: Served, images: tuple[Path, Path]) -> None:
    def ask(asked: Served) -> tuple[int, Any]:
        return asked.match(*images, model="sift", max_keypoints=100)

    with ThreadPoolExecutor(20) as pool:
        wide, narrow = (list(pool.map(ask, [asked] * 20)) for asked in (server, strict))
    codes, strict_codes = ([status for status, _ in answers] for answers in (wide, narrow))
    # One is worked on, 16 and 3 may wait; what is quick may make room for more.
    assert set(codes) <= {200, 429} and codes.count(200) >= 17
    assert set(strict_codes) <= {200, 429, 503} and strict_codes.count(200) >= 1
    assert len({json.dumps({**answer, "seconds": 0}) for status, answer in wide if status == 200}) == 1
    assert all("try again" in answer["error"] for status, answer in wide if status == 429)


def test_work_without_end_is_given_up_and_the_next_is_answered(
    strict: Served, images: tuple[Path, Path], tmp_path: Path
) -> None:
    large = tmp_path / "large.jpg"
    cv2.imwrite(str(large), texture(2400, 2400, seed=5), [cv2.IMWRITE_JPEG_QUALITY, 85])
    started = time.monotonic()
    status, answer = strict.match(large, large, model="patchprint", max_keypoints=20_000)
    assert status == 503 and answer["error"].startswith("this took longer than 3 seconds and was given up")
    assert time.monotonic() - started < SECONDS + 30  # a process may have had to start first
    assert strict.match(*images, model="sift", max_keypoints=100)[0] == 200


def begin(server: Served, data: bytes) -> socket.socket:
    """A connection on which the beginning of a request was sent."""
    place = urlsplit(server.address)
    connection = socket.create_connection((place.hostname, place.port), timeout=30)
    connection.sendall(data.replace(b"HOST", place.netloc.encode()))
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    return data


def test_h1_no_json_is_read_however_deep(server: Served) -> None:
    """JSON nested 943 to 946 deep passed the guard of paths, and the server looked up the host in it."""
    for depth in (1, 33, 943, 946, 20_000):
        body = b"[" * depth + b'{"path": "http://attacker.example.com/a.png"}' + b"]" * depth
        status, answer = server.ask("POST", "/api/match", body, {"Content-Type": "application/json"})
        assert status == 400 and "image_a is missing" in answer["error"], depth


def test_a_body_that_is_too_large_is_refused_while_it_is_read(strict: Served) -> None:
    with begin(strict, HEAD + b"Content-Length: 900000000\r\n\r\n") as announced:
        assert read_all(announced).startswith(b"HTTP/1.1 413 ")
    with begin(strict, HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(PART), PART)) as chunked:
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 100_000_000:
                chunked.sendall(b"100000\r\n" + bytes(0x100000) + b"\r\n")
                sent += 0x100000
        assert sent < 60_000_000  # the limit is 8 MB; the rest was on its way


def test_slow_and_silent_connections_are_closed(strict: Served) -> None:
    started = time.monotonic()
    with (
        begin(strict, HEAD + b"Content-Length: 5000\r\n\r\n--x\r\n") as slow,
        begin(strict, b"") as silent,
        begin(strict, b"GET / HTTP/1.1\r\nHost: a") as half,
    ):
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 3 seconds" in answer
        read_all(silent)
        read_all(half)
    assert SECONDS - 0.5 < time.monotonic() - started < SECONDS + 10


def test_m1_half_a_head_is_not_waited_for_on_a_kept_connection(strict: Served) -> None:
    """After a whole request half a head was waited for without end, and 256 of them shut the server."""
    connections = [begin(strict, b"GET /page.css HTTP/1.1\r\nHost: HOST\r\n\r\n") for _ in range(255)]
    for connection in connections:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a")
    started, dripping = time.monotonic(), connections[-1]
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < started + SECONDS + 10:
            dripping.sendall(b"a")
            time.sleep(0.2)
    assert time.monotonic() - started < SECONDS + 5
    for connection in connections:
        with contextlib.suppress(ConnectionError):
            read_all(connection)
        connection.close()
    assert time.monotonic() - started < SECONDS + 10 and strict.ask("GET", "/")[0] == 200


def test_l2_a_wide_address_is_warned_of_and_answers_to_known_names(strict: Served, server: Served) -> None:
    """Any name with an equal origin was answered there, as of a site that makes its name lead to this machine."""
    said = "".join(strict.stderr_lines)
    assert "warning: 0.0.0.0 can be reached from other machines" in said and "without a password" in said
    assert "warning" not in "".join(server.stderr_lines)
    for name, status in (("photos.lan", 200), ("192.0.2.7:80", 200), ("evil.example", 403)):
        assert strict.ask("GET", "/", headers={"host": name, "origin": f"http://{name}"})[0] == status


def test_m4_m5_uploads_leave_nothing_and_slow_nobody_down(strict: Served, images: tuple[Path, Path]) -> None:
    """Uploads lay in a folder: broken ones for an hour, and tiny ones were counted again at each upload."""
    for _ in range(30):
        with begin(strict, HEAD + b"Content-Length: 8000000\r\n\r\n" + PART + bytes(3_000_000)) as broken:
            assert held_by(strict) == []
            broken.shutdown(socket.SHUT_RDWR)
    started = time.monotonic()
    tiny, kind = form({"image_a": "a", "image_b": "b"})
    for _ in range(300):
        assert strict.ask("POST", "/api/match", tiny, {"Content-Type": kind})[0] == 400
    assert time.monotonic() - started < 15
    assert strict.match(*images, model="sift", max_keypoints=50)[0] == 200
    assert list(strict.temporary.iterdir()) == []


def held_by(server: Served) -> list[str]:
    """Files below the temporary folder that the server holds open, without a name too."""
    links = [os.readlink(link) for link in Path(f"/proc/{server.process.pid}/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(str(server.temporary))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_l1_nothing_is_left_after_the_end(tmp_path: Path, images: tuple[Path, Path], number: signal.Signals) -> None:
    """SIGHUP, as of a terminal that closes, left uploads behind."""
    with serving(tmp_path, "--device", "cpu") as made:
        assert made.match(*images, model="sift", max_keypoints=50)[0] == 200
        workers = children_of(made.process.pid)
        assert workers and made.stop(number) == (-number if number == signal.SIGKILL else 143)
        assert list(made.temporary.iterdir()) == []
        until = time.monotonic() + 10
        while alive := [each for each in workers if Path(f"/proc/{each}").exists()]:
            assert time.monotonic() < until, alive
            time.sleep(0.05)


def children_of(process: int) -> list[int]:
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if re.search(rf"^PPid:\s+{process}$", status.read_text(), re.MULTILINE)
    ]


def test_where_it_cannot_serve_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(bind("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port)]) == 2
        sentence = f"patchprint: port {port} of 127.0.0.1 is in use; give another --host or --port (0 for any)\n"
        assert capsys.readouterr().err == sentence
    for host, number in (("no such host", 80), ("127.0.0.1", 70000), ("192.0.2.1", 0)):
        with pytest.raises(UserError, match=f"port {number} of {host} is no address of this machine"):
            bind(host, number)
    assert cli.main(["serve", "--max-seconds", "0"]) == 2
    assert "the limit seconds is 0" in capsys.readouterr().err
