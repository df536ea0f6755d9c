"""The packages of the image with the licences that they declare, off the environment of the tests. `make licenses`."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PINNED = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)
# What packages say that have no SPDX expression yet.
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_HEAD = """# Licences of what the image installs

Made by `make licenses` from what the packages declare; a test compares it with the locks, and each licence with a list
of those that are accepted. The weights of all-MiniLM-L6-v2 are Apache-2.0; the package that carries them is MIT.

"""


def locked_versions() -> dict[str, str]:
    """Return the version of each package of the image."""
    locks = [ROOT / "deploy" / "requirements-image.lock", ROOT / "deploy" / "requirements-torch.lock"]
    return {name: version for lock in locks for name, version in _PINNED.findall(lock.read_text(encoding="utf-8"))}


def licence_of(package: str) -> str:
    """Return its licence as an SPDX expression; empty when it declares none that is known."""
    fields = metadata(package)
    if "License-Expression" in fields:
        return str(fields["License-Expression"])
    declared = [
        *(each for each in fields.get_all("License") or [] if each != "UNKNOWN"),
        *_classifier_licences(fields.get_all("Classifier") or []),
    ]
    named = [_SPDX.get(each, each) for each in declared if each in _SPDX or re.fullmatch(r"[\w.+() -]{3,40}", each)]
    return named[0] if named else ""


def table() -> str:
    """Build the page."""
    rows = [f"- {name} {version}: {licence_of(name)}" for name, version in sorted(locked_versions().items())]
    return _HEAD + "\n".join(rows) + "\n"


def _classifier_licences(classifiers: list[str]) -> Iterator[str]:
    for each in classifiers:
        if each.startswith("License :: "):
            yield each.rpartition(" :: ")[2]


if __name__ == "__main__":
    sys.stdout.write(table())
