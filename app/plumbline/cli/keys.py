"""`plumbline keys`: makes, lists, changes and revokes the keys of a service, which sees it without a restart."""

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from plumbline.service.access.key import Scope

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DEFAULT_SCOPES: Final = "evaluate,jobs"


def add_command(commands: "Commands") -> None:
    """Adds `keys` to the parser."""
    keys = commands.add_parser(
        "keys",
        help="make, list, rotate and revoke API keys",
        description="Keys of the service whose settings (PLUMBLINE_KEYS_FILE, PLUMBLINE_DATA_DIR) these are. A running "
        "service sees a change within two seconds.",
    )
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    _add_create(actions)
    listing = actions.add_parser("list", help="list keys; no secret is shown, none is kept")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(run=partial(_run, "list"))
    rotate = actions.add_parser("rotate", help="give a key another secret; jobs and results stay its own")
    rotate.add_argument("name", metavar="NAME")
    rotate.add_argument(
        "--keep-old", type=_positive(float), default=0.0, metavar="HOURS", help="the old secret is good for so long"
    )
    rotate.set_defaults(run=partial(_run, "rotate"))
    revoke = actions.add_parser("revoke", help="end a key; its jobs pause, and nothing of its own is lost")
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(run=partial(_run, "revoke"))
    adopt = actions.add_parser("adopt", help="write a key of PLUMBLINE_API_KEYS into the file, with its jobs")
    adopt.add_argument("name", metavar="NAME")
    adopt.add_argument("--position", type=_positive(int), default=1, help="of the key there (default: %(default)s)")
    adopt.set_defaults(run=partial(_run, "adopt"))


def _add_create(actions: "Commands") -> None:
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("name", metavar="NAME", help="up to 64 letters, digits and ._-")
    create.add_argument(
        "--scopes",
        type=_scopes,
        default=_DEFAULT_SCOPES,
        help=f"what it is for, of {', '.join(Scope)}, with commas (default: %(default)s)",
    )
    create.add_argument("--expires", type=_positive(float), metavar="DAYS", help="it opens for so long")
    limit = "; 0: none, whatever the settings say"
    create.add_argument("--requests-per-minute", type=_limit(int), metavar="N", help=f"requests a minute{limit}")
    create.add_argument("--concurrency", type=_limit(int), metavar="N", help=f"requests under way at one time{limit}")
    create.add_argument("--tokens-per-day", type=_limit(int), metavar="N", help=f"tokens of judges a day, UTC{limit}")
    create.add_argument("--cost-per-day", type=_limit(float), metavar="X", help=f"money a day, UTC{limit}")
    create.set_defaults(run=partial(_run, "create"))


def _run(action: str, options: argparse.Namespace) -> int:
    # Milliseconds of import that the other commands do not pay.
    from plumbline.cli.key_actions import ACTIONS  # noqa: PLC0415

    return ACTIONS[action](options)


def _scopes(text: str) -> frozenset[Scope]:
    try:
        return frozenset(Scope(part.strip()) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(Scope)}, with commas") from None


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    return _number(kind, lambda value: value > 0, "above 0")


def _limit(kind: Callable[[str], float]) -> Callable[[str], float]:
    return _number(kind, lambda value: value >= 0, "0 or more")


def _number(kind: Callable[[str], float], is_right: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and is_right(value)):
            raise argparse.ArgumentTypeError(f"expected a number {wanted}")
        return value

    return read
