"""Where jobs are."""

from typing import Final
from urllib.parse import quote

JOBS_PATH: Final = "/v1/jobs"


def job_path(job_id: str) -> str:
    """The path of one job."""
    return f"{JOBS_PATH}/{quote(job_id, safe='')}"
