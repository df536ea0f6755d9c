"""Drop the changes of jobs and their counter, which 0.2 streamed as events.

Revision ID: plumbline_0002
"""

from alembic import op

revision = "plumbline_0002"
down_revision = "plumbline_0001"


def upgrade() -> None:
    op.drop_table("change")
    op.drop_column("job", "seq")
