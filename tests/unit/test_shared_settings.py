"""Settings on their way to a cluster's workers: nothing secret travels, and a worker that differs refuses."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from plumbline.extras.cluster.cluster_run import BlockWork, ClusterRun
from plumbline.extras.cluster.shared_settings import OWN, judges_digest, received_settings, sent_settings, share_limits
from plumbline.extras.cluster.task import ClusterTask
from plumbline.ground.settings import Settings, load_settings, variable_name
from tests.making.cluster_files import bridge_rows, write_lines
from tests.running.service import plain_settings

KEY = "sk-PLANTED-0001"
ENDPOINT = json.dumps([{"provider": "openai", "model": "m", "api_key": KEY}])
SECRETS = {
    "PLUMBLINE_API_KEYS": f"{KEY}-{KEY}",
    "PLUMBLINE_LLM_API_KEY": KEY,
    "DASHSCOPE_API_KEY": KEY,
    "PLUMBLINE_LLM_BASE_URL": f"https://user:{KEY}@judge.example/v1",
    "PLUMBLINE_EMBEDDING_API_KEY": KEY,
    "PLUMBLINE_EMBEDDING_BASE_URL": f"https://user:{KEY}@vectors.example/v1",
    "PLUMBLINE_DATABASE_URL": f"postgresql://user:{KEY}@db.example/plumbline",
    "PLUMBLINE_LLM_EXTRA_HEADERS": json.dumps({"X-Gateway": KEY}),
    **{f"{vendor}_API_KEY": KEY for vendor in ("OPENAI", "DEEPSEEK", "GEMINI", "MOONSHOT", "ZHIPUAI", "SILICONFLOW")},
    "PLUMBLINE_LLM_FALLBACKS": ENDPOINT,
    "PLUMBLINE_LLM_JUDGES": f'{{"second": {ENDPOINT}}}',
}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SECRETS, "PLUMBLINE_EMBEDDING_MODEL": "m"}.items():
        monkeypatch.setenv(name, value)


def test_every_setting_that_can_hold_a_key_is_read_where_it_is_used() -> None:
    may_hold_keys = {name for name, field in Settings.model_fields.items() if _names_a_secret(field.annotation)}

    assert may_hold_keys | {"llm_base_url", "embedding_base_url"} == OWN
    assert {variable_name(name) for name in OWN} == set(SECRETS)


def _names_a_secret(annotation: object) -> bool:
    return any(each in str(annotation) for each in ("SecretStr", "LlmEndpoint"))


@pytest.mark.usefixtures("secrets")
def test_no_secret_is_in_what_the_workers_are_sent_or_in_what_is_written(tmp_path: Path) -> None:
    rows = write_lines(tmp_path / "in.jsonl", bridge_rows(2))
    run = ClusterRun(load_settings(), ClusterTask(paths=(str(rows),), out_dir=str(tmp_path / "out")))
    run.begin([[]])

    sent = repr(asdict(run.order(workers=1)))
    written = (tmp_path / "out" / "_plumbline" / "manifest.json").read_text(encoding="utf-8")

    assert "PLANTED" not in sent + written
    assert "embedding_max_windows" in sent


@pytest.mark.usefixtures("secrets")
def test_a_worker_has_the_drivers_settings_and_the_keys_of_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = json.loads(json.dumps(sent_settings(plain_settings(threshold=0.7, llm_rpm=90, prompts_dir="/p"))))
    monkeypatch.setenv("PLUMBLINE_THRESHOLD", "0.1")

    received = received_settings(sent)

    assert (received.threshold, received.llm_rpm, received.prompts_dir) == (0.7, 90, Path("/p"))
    assert received.llm_api_key is not None
    assert received.llm_api_key.get_secret_value() == KEY


def test_limits_of_one_process_are_shared_out() -> None:
    share = share_limits(plain_settings(llm_rpm=100, llm_tpm=1_000, llm_max_concurrency=2), 3)

    assert (share.llm_rpm, share.llm_tpm, share.llm_max_concurrency) == (33, 333, 1)
    assert share_limits(plain_settings(), 3).llm_rpm is None


def test_other_judges_have_another_digest_and_other_keys_have_not() -> None:
    one = plain_settings(llm_provider="generic", llm_base_url="http://a", llm_api_key="k1")

    assert judges_digest(one) == judges_digest(one.model_copy(update={"llm_api_key": plain_key("k2")}))
    assert judges_digest(one) != judges_digest(one.model_copy(update={"llm_api_key": None}))
    assert judges_digest(one) != judges_digest(one.model_copy(update={"llm_base_url": "http://b"}))


def plain_key(text: str) -> object:
    return plain_settings(llm_api_key=text).llm_api_key


def test_a_worker_without_the_key_refuses_rather_than_fall_to_a_lower_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_lines(tmp_path / "in.jsonl", bridge_rows(2))
    monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)
    run = ClusterRun(load_settings(), ClusterTask(paths=(str(rows),), out_dir=str(tmp_path / "out")))
    run.begin([[]])
    order = run.order(workers=1)
    monkeypatch.delenv("DASHSCOPE_API_KEY")
    work = BlockWork(order)

    with pytest.raises(Exception, match="a worker's judges are not those of this machine"):
        _ = work._scorer
