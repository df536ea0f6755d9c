"""A multilingual model by its path gives Chinese a second tier, with the prefix that its name stands for."""

from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.making.small_models import save_small_model
from tests.running.edge_app import client_of
from tests.running.service import evaluate, plain_settings

# What libraries say of themselves when they save a model.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

CONTEXTS = ["这座桥很长。", "灯在塔上亮着。"]
ANSWER = "塔的灯亮着。"
WORDS = sorted({*"".join(CONTEXTS), *ANSWER, "query", ":"})


async def test_a_model_that_reads_chinese_judges_it(tmp_path: Path) -> None:
    model = save_small_model(tmp_path, "bert", name="multilingual-e5-small", words=WORDS)
    app = create_app(plain_settings(embedding_model=str(model), embedding_backend="torch"))

    async with app.router.lifespan_context(app), client_of(app) as client:
        result = await evaluate(client, answer=ANSWER, contexts=CONTEXTS)
        unread = await evaluate(client, answer="Ħġż ħġż.", contexts=["Ħġż."])

    assert (result["tier"], result["trace"]["judge"]["model"]) == ("embedding", "multilingual-e5-small")
    assert "uncalibrated" in result["flags"]
    # The name is no promise: what the tokenizer does not know is not read.
    reasons = {attempt["tier"]: attempt["reason"] for attempt in unread["trace"]["attempts"]}
    assert reasons["embedding"] == "unsupported_language"
