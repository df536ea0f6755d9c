"""Keep a note of the person beside a label.

Revision ID: plumbline_0004
"""

from alembic import op
from sqlalchemy import Column, Text, text

revision = "plumbline_0004"
down_revision = "plumbline_0003"


def upgrade() -> None:
    op.add_column("label", Column("note", Text, nullable=False, server_default=text("''")))
