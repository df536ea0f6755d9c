"""Tables of jobs on PostgreSQL: created and migrated under a lock."""

from typing import Final

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from plumbline.ground.errors import StoreUnavailable
from plumbline.rows.jobs.job_table import ADDED_COLUMNS, make_tables
from plumbline.rows.jobs.labels import LABEL_TABLE

_VERSION: Final = "1"
# "PLJB"
LOCK_CLASS: Final = 0x504C4A42
# Rows are in the database, compressed, apart from what changes.
TABLES: Final = make_tables(
    replaced={"@NUMBER@": "bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY", "@CHUNKS@": " WITH (fillfactor = 70)"},
    more="""
CREATE INDEX job_of_tenant ON job (tenant, number);
CREATE INDEX chunk_left ON chunk (job) WHERE state <> 'done';
CREATE TABLE chunk_rows (job bigint NOT NULL, n bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (job, n));
ALTER TABLE chunk_rows ALTER data SET STORAGE EXTERNAL;
""",
)


def make_schema(connection: Connection, schema: str) -> None:
    """Create or migrate the tables; the connection is in autocommit mode.

    Raises:
        StoreUnavailable: the schema is of another program, or of a later version.
    """
    with connection.transaction():
        # A concurrent process waits and finds it done.
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, schema))
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
        if _relations(connection, schema, "about") == 0:
            if _relations(connection, schema, "%"):
                raise StoreUnavailable(f"the schema {schema} of the database holds tables of something else")
            connection.execute("CREATE TABLE about (what text PRIMARY KEY, value text NOT NULL)")
            connection.execute(TABLES.encode())
            connection.execute("INSERT INTO about VALUES ('version', %s)", (_VERSION,))
        about: dict[str, str] = dict(connection.execute("SELECT what, value FROM about").fetchall())
        if about["version"] != _VERSION:
            raise StoreUnavailable(
                f"the schema {schema} of the database has version {about['version']}, and this service knows {_VERSION}"
            )
        if _relations(connection, schema, "label") == 0:
            connection.execute(LABEL_TABLE.encode())
        for table, column, kind, rest in ADDED_COLUMNS:
            if not _has_column(connection, schema, table, column):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind} {rest}".encode())


def _relations(connection: Connection, schema: str, like: str) -> int:
    found = connection.execute(
        "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s)) AND relname LIKE %s",
        (schema, like),
    ).fetchone()
    return 0 if found is None else int(found[0])


def _has_column(connection: Connection, schema: str, table: str, column: str) -> bool:
    where = "table_schema = %s AND table_name = %s AND column_name = %s"
    found = connection.execute(
        f"SELECT 1 FROM information_schema.columns WHERE {where}".encode(), (schema, table, column)
    )
    return found.fetchone() is not None
