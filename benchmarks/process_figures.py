"""What a process holds at one moment, read off /proc: memory, threads, and descriptors by what they are. Linux."""

import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Held:
    """Memory in MiB: resident, and of that what is no file's; descriptors by kind.

    `callers` are connections to the port that it is called on, `outgoing` those that it opened.
    """

    rss_mib: float
    anonymous_mib: float
    threads: int
    callers: int
    listening: int
    outgoing: int
    files: int
    others: int

    @property
    def descriptors(self) -> int:
        """All of them."""
        return self.callers + self.listening + self.outgoing + self.files + self.others

    def line(self) -> str:
        """For a table: memory with a digit behind the point, the rest as counts."""
        return " | ".join(f"{each:.1f}" if isinstance(each, float) else str(each) for each in asdict(self).values())


def held_by(pid: int, port: int) -> Held:
    """What it holds now; `port`: on which it is called."""
    status = _sizes(Path(f"/proc/{pid}/status"))
    rollup = _sizes(Path(f"/proc/{pid}/smaps_rollup"))
    kinds = _descriptors(pid, port)
    return Held(
        rss_mib=status["VmRSS"] / 1024,
        anonymous_mib=rollup["Anonymous"] / 1024,
        threads=len(os.listdir(f"/proc/{pid}/task")),
        **{kind: kinds[kind] for kind in ("callers", "listening", "outgoing", "files", "others")},
    )


def _sizes(path: Path) -> dict[str, int]:
    """Numbers by name."""
    fields = (line.split() for line in path.read_text().splitlines()[1:])
    return {each[0].rstrip(":"): int(each[1]) for each in fields if len(each) > 1 and each[1].isdigit()}


def _descriptors(pid: int, port: int) -> Counter[str]:
    sockets = _sockets(pid, port)
    kinds: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(each)
        except OSError:
            continue
        if target.startswith("socket:["):
            kinds[sockets.get(target[8:-1], "others")] += 1
        else:
            kinds["files" if target.startswith("/") and not target.startswith("/dev/") else "others"] += 1
    return kinds


def _sockets(pid: int, port: int) -> dict[str, str]:
    """The kind of each socket of the machine by its inode (proc(5): fields 2 address, 4 state, 10 inode)."""
    found = {}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        is_ours = int(fields[1].rpartition(":")[2], 16) == port
        kind = "listening" if fields[3] == _LISTENING else "callers"
        found[fields[9]] = kind if is_ours else "outgoing"
    return found
