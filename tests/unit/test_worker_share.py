"""One worker's share: bounds are divided, caches are files of all."""

from pathlib import Path

from plumbline.service.worker_share import WorkerShare
from tests.running.service import plain_settings


def test_a_process_alone_has_the_settings_as_they_are() -> None:
    settings = plain_settings(llm_max_concurrency=3)

    assert WorkerShare().settings_of(settings) is settings


def test_bounds_are_divided_and_rounded_up(tmp_path: Path) -> None:
    settings = plain_settings(llm_max_concurrency=3, job_concurrency=0, batch_concurrency=1, llm_rpm=61)

    mine = WorkerShare.joining(tmp_path, 1, 2).settings_of(settings)

    assert (mine.llm_max_concurrency, mine.job_concurrency, mine.batch_concurrency) == (2, 0, 1)
    assert (mine.llm_rpm, mine.llm_tpm) == (31, None)


def test_caches_are_on_files_of_all_unless_the_settings_keep_them_elsewhere(tmp_path: Path) -> None:
    share = WorkerShare.joining(tmp_path / "shared", 1, 2)

    plain = share.settings_of(plain_settings())
    own = share.settings_of(plain_settings(cache_path=tmp_path / "mine.sqlite"))
    database = share.settings_of(plain_settings(database_url="postgresql://u@127.0.0.1/jobs"))

    assert plain.cache_path == tmp_path / "shared" / "verdicts.sqlite"
    assert plain.embedding_cache_path == tmp_path / "shared" / "vectors.sqlite"
    assert own.cache_path == tmp_path / "mine.sqlite"
    assert database.cache_path is None
