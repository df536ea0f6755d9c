"""The image that the Dockerfile describes, without a container engine: built from a clean checkout, asked, ended."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reading.dockerfile import read_stages, select_sent

ROOT = Path(__file__).parents[2]
KEY = "a-key-for-the-image"
SAMPLE = {"contexts": ["The Marlow Bridge was opened in 1931."], "answer": "The Marlow Bridge was opened in 1931."}


def test_every_file_that_is_copied_is_in_a_clean_checkout(context: Path) -> None:
    copied = [
        name
        for stage in read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
        for copy in stage.all("COPY")
        if "from" not in copy.flags
        for name in copy.words[:-1]
    ]

    assert copied
    assert [name for name in copied if not list(context.glob(name)) and "*" not in name] == []
    sent_files = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    assert [
        file
        for file in sent_files
        if not any(file == name or file.startswith((f"{name}/", "wheels/")) for name in copied)
    ] == []


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_image_answers_without_rights_on_a_read_only_root_and_ends_in_order(service: "Image") -> None:
    health = service.ask("/healthz")
    refused = service.ask("/v1/evaluations", SAMPLE)
    result = service.ask("/v1/evaluations", {**SAMPLE, "tiers": ["embedding"], "deadline_seconds": 60}, key=KEY)
    job = service.ask("/v1/jobs", {"rows": [SAMPLE], "options": {"tiers": ["lexical"]}}, key=KEY)
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="utf-8")
    is_healthy = service.run(*service.health_check)
    written = [service.run("touch", f"{folder}/x", as_root=True) for folder in ("", "/opt/plumbline", "/usr/local")]
    has_scratch = service.run("touch", "/tmp/x")  # noqa: S108
    has_installer = service.run("sh", "-c", "ls /opt/plumbline/bin /usr/local/bin | grep '^pip'")
    service.process.send_signal(signal.SIGTERM)

    assert health == (200, {"status": "ok"})
    assert refused[0] == 401
    assert (result[1]["tier"], result[1]["claims"][0]["verdict"]) == ("embedding", "supported")
    assert job[0] == 202
    assert {line.split()[1] for line in status.splitlines() if line.startswith(("Uid:", "Gid:"))} == {"10001"}
    assert {line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")} == {"0" * 16}
    assert is_healthy
    assert (written, has_scratch, has_installer) == ([False] * 3, True, False)
    assert service.process.wait(60) == 0, service.said()


class Image:
    """The command of the image, under way."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}"
        self._log = log
        stage = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))[-1]
        _, _, check = stage.last("HEALTHCHECK").value.partition("CMD ")
        self.health_check = [word.replace(":8000/", f":{port}/") for word in json.loads(check)]

    def ask(self, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self._url + path, data, headers)  # noqa: S310
            with urllib.request.urlopen(request, timeout=90) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def run(self, *command: str, as_root: bool = False) -> bool:
        """Whether the command, inside and as its user, ends with code 0."""
        user = [] if as_root else ["--setuid=10001", "--setgid=10001"]
        enter = ["nsenter", f"--target={self.process.pid}", "--mount", "--root", *user]
        path = {"PATH": "/opt/plumbline/bin:/usr/local/bin:/usr/bin:/bin"}
        return subprocess.run([*enter, *command], env=path, check=False, capture_output=True).returncode == 0

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")[-2000:]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """What a build is sent of a clean checkout."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    folder = tmp_path / "context"
    for name in select_sent(found, (ROOT / ".dockerignore").read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def _port_for_later() -> int:
    """A free port that the system gives to nobody who asks for any: the image takes seconds to listen."""
    while True:
        port = random.randrange(20_000, 30_000)  # noqa: S311
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@pytest.fixture
def service(context: Path, tmp_path: Path) -> Iterator[Image]:
    if not _can_mount(tmp_path):
        pytest.skip("needs root, overlays and a mount namespace")
    port = _port_for_later()
    scratch, log = tmp_path / "scratch", tmp_path / "log"
    command = ["unshare", "--mount", sys.executable, "-m", "tests.running.image_stages"]
    arguments = [str(ROOT / "Dockerfile"), str(context), str(scratch), str(port)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'app'}:{ROOT}", "PLUMBLINE_API_KEYS": KEY}
    environment.pop("PLUMBLINE_DATA_DIR")
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *arguments], env=environment, stdout=out, stderr=out)
        image = Image(process, port, log)
        try:
            _wait(image)
            yield image
        finally:
            process.kill()
            process.wait()


def _wait(image: Image) -> None:
    while image.process.poll() is None:
        try:
            image.ask("/healthz")
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(image.said())


def _can_mount(folder: Path) -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "setpriv", "chroot"))):
        return False
    for name in ("upper", "work", "over"):
        (folder / name).mkdir()
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    mount = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, str(folder / "over")]
    return subprocess.run(mount, check=False, capture_output=True).returncode == 0
