"""Drop the verdicts that services shared in PostgreSQL before the release of 0.3.

Revision ID: plumbline_0005
"""

from alembic import op

revision = "plumbline_0005"
down_revision = "plumbline_0004"


def upgrade() -> None:
    op.drop_table("verdict", if_exists=True)
