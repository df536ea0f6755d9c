"""Where jobs are, and what the service says there."""

from typing import Final
from urllib.parse import quote

from plumbline.client.connection import Ask, Connection
from plumbline.client.reading import read_model
from plumbline.schemas.jobs import JobInfo

JOBS_PATH: Final = "/v1/jobs"


def job_path(job_id: str) -> str:
    """The path of one job."""
    return f"{JOBS_PATH}/{quote(job_id, safe='')}"


async def fetched(connection: Connection, job_id: str) -> JobInfo:
    """The job now.

    Raises:
        NotThere: there is none of this id, or it is another caller's.
        ClientError: the service was not reached or refused.
    """
    return read_model(JobInfo, (await connection.answer(Ask("GET", job_path(job_id)))).content)
