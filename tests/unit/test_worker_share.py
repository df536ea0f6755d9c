"""One worker's part of the bounds of a service."""

from plumbline.service.worker_share import divide_bounds
from tests.running.service import plain_settings


def test_a_process_alone_has_the_settings_as_they_are() -> None:
    settings = plain_settings(llm_max_concurrency=3)

    assert divide_bounds(settings, 1) == settings


def test_bounds_are_divided_and_rounded_up() -> None:
    settings = plain_settings(llm_max_concurrency=3, job_concurrency=0, batch_concurrency=1, llm_rpm=61)

    mine = divide_bounds(settings, 2)

    assert (mine.llm_max_concurrency, mine.job_concurrency, mine.batch_concurrency) == (2, 0, 1)
    assert (mine.llm_rpm, mine.llm_tpm) == (31, None)
