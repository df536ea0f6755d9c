"""The command line: what the user can fix is one line on standard error and exit code 2."""

import importlib.util
import socket

import pytest

from plumbline import __version__
from plumbline.cli.main import main
from plumbline.cli.serve import listen
from tests.making.cases import load_cases

_COMMANDS = ["serve", "worker", "score", "report", "rate", "calibrate", "retrieval", "lab"]
_COMMANDS += ["batch-file", "keys", "doctor", "mcp"]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])

    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"plumbline {__version__}\n"


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if line[:4] == " " * 4 and line[4:5].strip()] == _COMMANDS


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_that_is_named_is_there(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])

    assert exit_info.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: plumbline {command} ")


@pytest.mark.parametrize(("old", "new"), load_cases("cli", "an_old_command_answers_with_its_new_name"))
def test_an_old_command_answers_with_its_new_name(capsys: pytest.CaptureFixture[str], old: str, new: str) -> None:
    assert main(old.split()) == 2
    assert capsys.readouterr().err == f"plumbline: {old.partition(' ')[0]!r} is now 'plumbline {new}'\n"
    with pytest.raises(SystemExit, match="0"):
        main([*new.split(), "--help"])
    assert capsys.readouterr().out.startswith(f"usage: plumbline {new} ")


def test_a_command_that_is_not_there_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["serv"])

    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert [command for command in _COMMANDS if repr(command) not in error] == []


@pytest.mark.parametrize(("arguments", "said"), load_cases("cli", "arguments_that_are_wrong_are_told_in_one_line"))
def test_arguments_that_are_wrong_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments.split())

    assert (exit_info.value.code, capsys.readouterr().err) == (2, said)


@pytest.mark.skipif(importlib.util.find_spec("mcp") is not None, reason="the SDK is installed")
def test_mcp_without_its_sdk_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 2
    assert capsys.readouterr().err == "plumbline mcp needs the MCP SDK: pip install 'plumbline-rag[mcp]'\n"


def test_answers_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as caller:
        connection, _ = listener.accept()
        with connection:
            assert caller.getpeername() == listener.getsockname()
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
