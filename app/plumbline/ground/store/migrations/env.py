"""Alembic's entry: it migrates on the connection, and within the transaction, that it is given."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
