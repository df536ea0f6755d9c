"""Versions of the store's tables: a database is new, of this version, of an earlier one, or none of ours."""

import time
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import Connection, Engine, insert, select

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.backend import Backend
from plumbline.ground.store.tables import METADATA, VERSION
from plumbline.ground.texts import CodedText

HEAD: Final = "plumbline_0005"
# Tables of 0.2, which had no table of its version.
_OF_0_2: Final = frozenset({"job", "chunk", "result", "strike", "garbage", "change"})


def check_version(backend: Backend, connection: Connection) -> bool:
    """Return False if tables are to be created or migrated; raise StoreUnavailable for another program's."""
    found = backend.tables(connection)
    if VERSION.name in found:
        if connection.execute(select(VERSION.c.version_num)).scalars().all() != [HEAD]:
            return False
        lacking = sorted(METADATA.tables.keys() - found)
        if lacking:
            raise StoreUnavailable(CodedText("database_lacks_table", name=lacking[0]))
        return True
    if found and not found >= _OF_0_2:
        raise StoreUnavailable(CodedText("database_of_another_program"))
    return False


def make_tables(backend: Backend, engine: Engine) -> None:
    """Create the tables or migrate them, in one transaction: a process that is killed in it has changed nothing."""
    started = time.monotonic()
    with engine.connect() as connection:
        backend.begin_write(connection, is_durable=True)
        backend.lock_tables(connection)
        # Another process may have made them meanwhile.
        if check_version(backend, connection):
            return
        is_new = not backend.tables(connection)
        if is_new:
            backend.create(connection)
            connection.execute(insert(VERSION).values(version_num=HEAD))
        else:
            _migrate(backend, connection)
        connection.commit()
    if not is_new:
        structlog.get_logger().info("store_upgraded", version=HEAD, seconds=round(time.monotonic() - started, 1))


def _migrate(backend: Backend, connection: Connection) -> None:
    # Half a second that only an upgrade costs.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection, "backend": backend})
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(CodedText("database_newer")) from error
