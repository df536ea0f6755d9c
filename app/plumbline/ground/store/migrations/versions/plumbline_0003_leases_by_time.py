"""Let leases end by time alone: owners go, and a submission has a time at which it is given up.

Revision ID: plumbline_0003
"""

from alembic import op
from sqlalchemy import Column, Double, text

revision = "plumbline_0003"
down_revision = "plumbline_0002"


def upgrade() -> None:
    op.drop_column("chunk", "owner")
    op.drop_column("submission", "owner")
    op.add_column("submission", Column("until", Double, nullable=False, server_default=text("0")))
