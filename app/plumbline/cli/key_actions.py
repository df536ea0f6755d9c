"""What `plumbline keys` does, once it is known what is asked for."""

import argparse
import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import load_settings
from plumbline.service.access.access import key_path, spending_path
from plumbline.service.access.key_changes import adopt_key, create_key, revoke_key, rotate_key
from plumbline.service.access.key_file import StoredKey, StoredLimits, read_keys
from plumbline.service.access.spending_file import Spent, read_day


def _create(options: argparse.Namespace) -> int:
    secret = create_key(
        key_path(load_settings()),
        options.name,
        scopes=options.scopes,
        limits=StoredLimits(
            requests_per_minute=options.requests_per_minute,
            concurrency=options.concurrency,
            tokens_per_day=options.tokens_per_day,
            cost_per_day=options.cost_per_day,
        ),
        expires_days=options.expires,
    )
    _hand_out(secret)
    return 0


def _rotate(options: argparse.Namespace) -> int:
    _hand_out(rotate_key(key_path(load_settings()), options.name, keep_old_hours=options.keep_old))
    return 0


def _hand_out(secret: str) -> None:
    """The secret alone on standard output, for scripts; what is to be known of it beside."""
    sys.stdout.write(f"{secret}\n")
    sys.stderr.write("this is shown once and kept nowhere; send it as 'Authorization: Bearer <key>'\n")


def _revoke(options: argparse.Namespace) -> int:
    revoke_key(key_path(load_settings()), options.name)
    return 0


def _adopt(options: argparse.Namespace) -> int:
    settings = load_settings()
    if options.position > len(settings.api_keys):
        raise InvalidInput(f"PLUMBLINE_API_KEYS has {len(settings.api_keys)} keys; there is no key {options.position}")
    secret = settings.api_keys[options.position - 1].get_secret_value()
    adopt_key(key_path(settings), options.name, secret)
    return 0


def _list(options: argparse.Namespace) -> int:
    settings, now = load_settings(), datetime.now(UTC)
    keys = read_keys(key_path(settings)).keys
    try:
        spent = read_day(spending_path(settings), now.date().isoformat())
    except (OSError, sqlite3.Error):
        spent = {}
    rows = [_row(key, spent.get(key.tenant, Spent()), now) for key in keys]
    sys.stdout.write(json.dumps(rows, indent=2) + "\n" if options.json else _table(rows))
    return 0


def _row(key: StoredKey, spent: Spent, now: datetime) -> dict[str, object]:
    limits = {name: value for name, value in key.limits.model_dump().items() if value is not None}
    return {
        "name": key.name,
        "state": "revoked" if key.revoked else "open" if key.opens_at(now) else "expired",
        "scopes": sorted(key.scopes),
        "created": _day(key.created),
        "expires": _day(key.expires),
        "limits": limits,
        "tokens_today": spent.tokens,
        "cost_today": round(spent.cost, 6),
    }


def _table(rows: list[dict[str, object]]) -> str:
    if not rows:
        return "no keys; 'plumbline keys create NAME' makes one\n"
    cells = [
        [name.upper().replace("_", " ") for name in rows[0]],
        *([_cell(each) for each in row.values()] for row in rows),
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items()) or "-"
    return ",".join(value) if isinstance(value, list) else "-" if value is None else str(value)


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d")


ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = MappingProxyType(
    {"create": _create, "list": _list, "rotate": _rotate, "revoke": _revoke, "adopt": _adopt}
)
