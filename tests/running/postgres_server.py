"""A real PostgreSQL on loopback, of one's own, from the machine's packages: started, killed and started again."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_START_SECONDS = 30.0
# PostgreSQL refuses to run as root.
_OTHER_USER = "nobody"
_SETTINGS = {"max_connections": 200, "fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}


def binaries() -> Path | None:
    """Where the server's programs are; None when there are none."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    # Debian keeps them out of the path, a folder for each version.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    return versions[-1].parent if versions else None


class PostgresServer:
    """One server with an empty database, in a folder of its own that goes with it."""

    def __init__(self) -> None:
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self._home = Path(tempfile.mkdtemp(prefix="pg-"))
        self._data = self._home / "data"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://judge:secret-word@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> "PostgresServer":
        if os.geteuid() == 0:
            shutil.chown(self._home, _OTHER_USER)
        arguments = ("--auth=trust", "--username=judge", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._run("initdb", "-D", str(self._data), *arguments)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        """Starts it; returns when it answers."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = self._command(
            "postgres", "-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._home), *settings
        )
        with (self._home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        until = time.monotonic() + _START_SECONDS
        while self._answers() != 0:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self._home / "server.log").read_text()[-2000:])
            time.sleep(0.02)

    def new_database(self) -> str:
        """The URL of one more database, empty."""
        name = f"d{secrets.token_hex(6)}"
        query = f"CREATE DATABASE {name}"
        command = ["psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "judge", "-c", query, "postgres"]
        self._run(*command)
        return self.url.removesuffix("postgres") + name

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops all of its processes while the context lasts: it accepts connections, and never answers."""
        assert self._process is not None
        pids = [self._process.pid, *self._children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it at once and without a word, as a machine does that loses power: the server and all it has begun."""
        if self._process is not None:
            pid = self._process.pid
            # The first one, so that it begins no others.
            os.kill(pid, signal.SIGSTOP)
            for each in (pid, *self._children()):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _answers(self) -> int:
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode

    def _run(self, *command: str) -> None:
        subprocess.run(self._command(*command), check=True, capture_output=True, cwd="/")

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() != 0:
            return command
        return ["setpriv", f"--reuid={_OTHER_USER}", "--regid=nogroup", "--clear-groups", *command]
