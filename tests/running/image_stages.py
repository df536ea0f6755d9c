"""The Dockerfile carried out without a container engine: each stage in a root of its own, then its command.

    unshare --mount python -m tests.running.image_stages DOCKERFILE CONTEXT SCRATCH PORT

Needs root and a mount namespace of its own. The base is this machine's system with the Python that runs this, as an
overlay that nothing is written through; of the rest there is only what the Dockerfile puts there. Its steps run as
they are but for one: what `pip install --require-hashes` would fetch is linked from the environment of the tests, just
the packages that the locks name. Ends as the image's command, with its user, without rights, on a read-only root.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from tests.reading.dockerfile import Instruction, Stage, read_stages, substitute

_HIDDEN = ("tmp", "work", "opt", "root", "home", "mnt", "media", "srv", "data", "src", "wheel", "var/tmp")
_SITE = "/site-of-tests"
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_INSTALL = re.compile(r"(?P<environment>\S+)/bin/pip install .*--require-hashes")
_PORT = "8000"


class Root:
    """The file system of one stage."""

    def __init__(self, scratch: Path, site: Path) -> None:
        self.path = scratch / "root"
        _overlay(scratch / "system", Path("/"), self.path)
        for name in _HIDDEN:
            self._inside(name)
            _run("mount", "-t", "tmpfs", "tmpfs", str(self.path / name))
        (self.path / "tmp").chmod(0o1777)
        for name in ("dev", "proc"):
            _run("mount", "--rbind", f"/{name}", str(self.path / name))
        if sys.base_prefix != "/usr":
            _overlay(scratch / "python", Path(sys.base_prefix), self._inside("usr/local"))
        _run("mount", "--bind", str(site), str(self._inside(_SITE)))
        # Python here may have been built for another place than /usr/local.
        self.environment = {"PATH": _PATH, "LANG": "C.UTF-8", "LD_LIBRARY_PATH": "/usr/local/lib"}
        self._folder = "/"

    def carry_out(self, stage: Stage, context: Path, earlier: dict[str, "Root"]) -> None:
        """Its instructions in order."""
        for each in stage.instructions:
            if each.keyword == "ENV":
                values = {key: substitute(value, self.environment) for key, value in each.pairs.items()}
                self.environment |= values
            elif each.keyword == "WORKDIR":
                self._folder = each.value
                self._inside(each.value)
            elif each.keyword == "COPY":
                self._copy(each, earlier[each.flags["from"]].path if "from" in each.flags else context)
            elif each.keyword == "RUN":
                for step in each.value.split("&&"):
                    self._step(step.strip())

    def close(self) -> None:
        """Nothing can be written any more but under /tmp and /data."""
        for mount in (_SITE.lstrip("/"), "usr/local", *_HIDDEN, ""):
            if mount not in ("tmp", "data") and os.path.ismount(self.path / mount):
                _run("mount", "-o", "remount,ro", str(self.path / mount))

    def _step(self, step: str) -> None:
        install = _INSTALL.search(step)
        if install is None:
            self.run("/bin/sh", "-c", step)
            return
        locks = [self._at(name) for name in re.findall(r"--requirement (\S+)", step)]
        names = {_plain(name) for lock in locks for name in re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)}
        (folder,) = self._at(install["environment"]).glob("lib/python3*/site-packages")
        _link(names, folder)

    def run(self, *command: str) -> None:
        """The command in here, as root."""
        inside = f"cd {shlex.quote(self._folder)} && exec {shlex.join(command)}"
        _run("chroot", str(self.path), "/bin/sh", "-c", inside, environment=self.environment)

    def _copy(self, copy: Instruction, source: Path) -> None:
        *names, target = copy.words
        into = self._at(target)
        for name in names:
            found = sorted(source.glob(name.lstrip("/")))
            assert found or "*" in name, f"COPY {name}: there is no such file in the build context"
            for each in found:
                if each.is_dir():
                    shutil.copytree(each, into, symlinks=True, dirs_exist_ok=True)
                else:
                    into.mkdir(parents=True, exist_ok=True) if target.endswith("/") else None
                    shutil.copy2(each, into)

    def _at(self, place: str) -> Path:
        return self.path / os.path.join(self._folder, place).lstrip("/")

    def _inside(self, name: str) -> Path:
        folder = self.path / name.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def main(dockerfile: str, context: str, scratch: str, port: str) -> None:
    """Carries out the stages and becomes the command of the last, on another port."""
    _run("mount", "--make-rprivate", "/")
    # One for all stages: a package is linked, and so is what a step writes beside one.
    site = Path(scratch, "site")
    _overlay(Path(scratch, "packages"), Path(_site()), site)
    roots: dict[str, Root] = {}
    for stage in read_stages(Path(dockerfile).read_text(encoding="utf-8")):
        roots[stage.name] = Root(Path(scratch, stage.name), site)
        roots[stage.name].carry_out(stage, Path(context), roots)
    root = roots[stage.name]
    root.close()
    command = [port if word == _PORT else word for word in stage.last("CMD").words]
    user, group = stage.last("USER").value.split(":")
    rights = ["--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    within = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}", *rights, *command]
    given = {name: value for name, value in os.environ.items() if name.startswith("PLUMBLINE_")}
    begin = ["chroot", str(root.path), *within]
    os.execve(shutil.which("chroot") or "chroot", begin, given | root.environment)  # noqa: S606


def _overlay(scratch: Path, lower: Path, place: Path) -> None:
    """Mounts the lower folder at the place; what is written there goes to scratch."""
    upper, work = scratch / "upper", scratch / "work"
    for folder in (upper, work, place):
        folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", str(place))


def _link(names: set[str], folder: Path) -> None:
    tops_by_name = {_plain(each.metadata["Name"]): _tops(each) for each in distributions(path=[_site()])}
    missing = names - tops_by_name.keys()
    assert not missing, f"locked for the image, and not in the environment of the tests: {sorted(missing)}"
    # A new environment of Python 3.11 has a setuptools, which an install would replace.
    for old in (*folder.glob("setuptools*"), folder / "_distutils_hack"):
        shutil.rmtree(old, ignore_errors=True)
    for top in {top for name in names for top in tops_by_name[name]}:
        (folder / top).unlink(missing_ok=True)
        (folder / top).symlink_to(f"{_SITE}/{top}")


def _tops(distribution: Distribution) -> set[str]:
    tops = {file.parts[0] for file in distribution.files or ()}
    return tops - {"..", "__pycache__"}


def _site() -> str:
    return next(path for path in sys.path if path.endswith("site-packages"))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main(*sys.argv[1:])
