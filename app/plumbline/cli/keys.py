"""`plumbline keys`: create, list, rotate and revoke API keys; a running service needs no restart."""

import argparse
import json
import sys
from datetime import UTC, datetime

from plumbline.cli import Commands, build_command
from plumbline.ground.settings import load_settings
from plumbline.service.access.access import key_path
from plumbline.service.access.keys import Scope, StoredKey, create_key, read_keys, revoke_key, rotate_key


def add_command(commands: Commands) -> None:
    build_command(
        commands,
        "keys",
        {"create": _create, "list": _list, "rotate": _rotate, "revoke": _revoke},
        scopes=_scopes,
        scope_names=tuple(Scope),
    )


def _create(options: argparse.Namespace) -> int:
    secret = create_key(
        key_path(load_settings()),
        options.name,
        scopes=options.scopes,
        concurrency=options.concurrency,
        expires_days=options.expires,
    )
    _print_secret(secret)
    return 0


def _rotate(options: argparse.Namespace) -> int:
    _print_secret(rotate_key(key_path(load_settings()), options.name, keep_old_hours=options.keep_old))
    return 0


def _print_secret(secret: str) -> None:
    """Print the secret alone on standard output, for scripts."""
    sys.stdout.write(f"{secret}\n")
    sys.stderr.write("this is shown once and not stored; send it as 'Authorization: Bearer <key>'\n")


def _revoke(options: argparse.Namespace) -> int:
    revoke_key(key_path(load_settings()), options.name)
    return 0


def _list(options: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    rows = [_row(key, now) for key in read_keys(key_path(load_settings())).keys]
    sys.stdout.write(json.dumps(rows, indent=2) + "\n" if options.json else _table(rows))
    return 0


def _row(key: StoredKey, now: datetime) -> dict[str, object]:
    return {
        "name": key.name,
        "state": "revoked" if key.revoked else "open" if key.opens_at(now) else "expired",
        "scopes": sorted(key.scopes),
        "created": _day(key.created),
        "expires": _day(key.expires),
        "concurrency": key.limits.concurrency,
    }


def _table(rows: list[dict[str, object]]) -> str:
    if not rows:
        return "no keys; create one with 'plumbline keys create NAME'\n"
    from plumbline.retrieval.tables import Table, as_text  # noqa: PLC0415 - imports numpy

    return as_text(Table(tuple(map(str.upper, rows[0])), tuple(tuple(map(_cell, row.values())) for row in rows)))


def _cell(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else "-" if value is None else str(value)


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d")


def _scopes(text: str) -> frozenset[Scope]:
    try:
        return frozenset(Scope(part.strip()) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(Scope)}, with commas") from None
