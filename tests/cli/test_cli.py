"""The frame of the command line: help, suggestions, exit codes, one sentence per error."""

import subprocess
import sys

import pytest

from patchprint import cli


def test_help_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.SUBCOMMANDS)


def test_no_command_is_wrong_use() -> None:
    assert cli.main([]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["modles"], ["did you mean models?"]),
        (["frobnicate"], ["known are", "describe"]),
        (["models", "--jsno"], ["--jsno", "did you mean --json?"]),
        (["train", "hardnett"], ["did you mean hardnet"]),
        (["train", "hardnet", "--stepz", "10"], ["--stepz", "did you mean", "--steps"]),
        (["train", "hardnet", "--steps", "many"], ["--steps", "many"]),
    ],
)
def test_wrong_words_give_one_sentence_and_code_2(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert all(word in captured.err for word in words), captured.err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHPRINT_DEBUG", "1")
    with pytest.raises(ValueError, match="did you mean"):
        cli.main(["modles"])


@pytest.mark.parametrize("line", [["models"], ["match", "--help"]])
def test_nothing_is_said_where_nobody_reads_any_more(line: list[str]) -> None:
    command = [sys.executable, "-m", "patchprint", *line]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, b"")
