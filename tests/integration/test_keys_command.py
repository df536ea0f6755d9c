"""`plumbline keys`: a secret is printed once, a list shows none, mistakes are one line; `serve` without any key."""

import json
import re
import socket
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.ground.proxies import is_loopback
from plumbline.service.access.access import Keyring
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, read_keys
from tests.making.cases import load_cases


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of the settings; no key is configured."""
    for name in ("PLUMBLINE_API_KEYS", "PLUMBLINE_ALLOW_ANONYMOUS", "PLUMBLINE_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLUMBLINE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def created(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The secret that a command printed, alone on its line."""
    assert main(["keys", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    return lines[0]


def ring(folder: Path) -> Keyring:
    return Keyring((), folder / KEYS_FILE_NAME)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with exit code 2."""
    capsys.readouterr()
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_created_key_opens_with_the_scopes_and_the_limit_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = created(capsys, "create", "usual")
    limited = created(capsys, *("create", "ci", "--scopes", "jobs, admin", "--concurrency", "6", "--expires", "30"))

    assert ring(folder).key_of([usual.encode()]).scopes == {Scope.EVALUATE, Scope.JOBS}
    key = ring(folder).key_of([limited.encode()])
    assert (set(key.scopes), key.concurrency) == ({Scope.JOBS, Scope.ADMIN}, 6)
    kept = read_keys(folder / KEYS_FILE_NAME).keys[1]
    assert kept.expires is not None
    assert (kept.expires - kept.created).days == 30


def test_a_file_of_its_own_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_KEYS_FILE", str(tmp_path / "elsewhere" / "callers.json"))

    created(capsys, "create", "ci")

    assert [key.name for key in read_keys(tmp_path / "elsewhere" / "callers.json").keys] == ["ci"]
    assert not folder.exists()


def test_a_list_shows_every_key_and_no_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["keys", "list"])
    assert "plumbline keys create NAME" in capsys.readouterr().out
    assert not folder.exists()
    secrets = [created(capsys, "create", name, "--concurrency", "5") for name in ("open", "gone")]
    main(["keys", "revoke", "gone"])
    key = ring(folder).key_of([secrets[0].encode()])

    main(["keys", "list"])
    table = capsys.readouterr().out
    main(["keys", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)

    found = [(each["name"], each["state"], each["concurrency"]) for each in listed]
    assert found == [("open", "open", 5), ("gone", "revoked", 5)]
    assert re.search(r"^open +open +evaluate,jobs .* 5$", table, re.MULTILINE)
    for hidden in (*secrets, key.tenant, *re.findall(r"[0-9a-f]{32,}", (folder / KEYS_FILE_NAME).read_text())):
        assert hidden not in table + json.dumps(listed)


def test_a_key_is_rotated_and_revoked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = created(capsys, "create", "ci")
    second = created(capsys, "rotate", "ci", "--keep-old", "1")

    keyring = ring(folder)
    assert keyring.key_of([first.encode()]) == keyring.key_of([second.encode()])
    assert main(["keys", "revoke", "ci"]) == 0
    assert capsys.readouterr().out == ""
    assert not ring(folder).has_open_key()
    # a revoked key is no key to serve with
    assert "plumbline keys create" in refused(capsys, "serve", "--host", "0.0.0.0", "--port", "0")


@pytest.mark.parametrize(("arguments", "said"), load_cases("keys_command", "mistakes", inner=list))
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    created(capsys, "create", "ci")

    assert said in refused(capsys, "keys", *arguments)


@pytest.mark.parametrize("arguments", load_cases("keys_command", "wrong_arguments"))
def test_a_wrong_argument_is_refused(folder: Path, arguments: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["keys", *arguments.split()])

    assert not folder.exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "", "service.example"])
def test_beyond_loopback_nothing_is_served_without_a_key(
    folder: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    line = refused(capsys, "serve", "--host", host, "--port", "0")

    for way in ("plumbline keys create", "PLUMBLINE_API_KEYS", "PLUMBLINE_ALLOW_ANONYMOUS=true"):
        assert way in line


@pytest.mark.parametrize("way", ["file", "PLUMBLINE_API_KEYS", "PLUMBLINE_ALLOW_ANONYMOUS", "loopback"])
@pytest.mark.parametrize("is_auto", [False, True])
def test_each_way_on_lets_it_listen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str, is_auto: bool
) -> None:
    if way == "file":
        created(capsys, "create", "ci")
    elif way.startswith("PLUMBLINE_"):
        monkeypatch.setenv(way, "true" if way == "PLUMBLINE_ALLOW_ANONYMOUS" else "a-key-of-the-settings")
    is_local = way == "loopback"
    host = "auto" if is_auto else "127.0.0.1" if is_local else "0.0.0.0"

    # a port that is taken on every address: it comes as far as listening, and says where
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["serve", "--host", host, "--port", str(port)])

    said = capsys.readouterr().err
    assert code == 2
    assert f"cannot listen on {'127.0.0.1' if is_local else '0.0.0.0'} port {port}" in said.splitlines()[-1]
    assert ("listening_on_loopback_alone" in said) is (is_local and is_auto)


def test_a_damaged_file_of_keys_stops_the_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / KEYS_FILE_NAME).write_text("{ oops")

    assert "is no file of keys" in refused(capsys, "serve")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *[(host, True) for host in ("localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")],
        *[(host, False) for host in ("", "0.0.0.0", "::", "localhost.example", "10.0.0.1", "127.1")],
    ],
)
def test_loopback_is_told_by_name_or_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
