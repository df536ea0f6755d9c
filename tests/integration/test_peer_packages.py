"""Each integration inside the real package: the built wheel and the package, put into an empty environment."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reading.evaluator_recipes import MIDDLEWARE, recipe
from tests.running.peers import live_service, pinned, run_example
from tests.running.real_servers import install_wheel, python_of, servers_folder

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
ANSWERS = 'ANSWERS, CONTEXTS = [RIGHT, WRONG, "I do not know."], [CONTEXT]\n'

# Each of these runs behind the code that its page gives.
RECIPES = {
    "llama-index-core": "LlamaIndex", "haystack-ai": "Haystack", "dspy": "DSPy", "mlflow": "MLflow",
    "langsmith": "LangSmith",
}  # fmt: skip
# Each example is what its page shows, and what the package makes of a good, a false and a declined answer.
EXAMPLES = {
    "llama-index-core": """
        evaluator = PlumblineEvaluator()
        results = [evaluator.evaluate(query="How old?", response=each, contexts=CONTEXTS) for each in ANSWERS]
        assert results[0].score > 0.9 > 0.5 > results[1].score and results[2].score is None
        assert [each.passing for each in results] == [True, False, None]
        assert [each.invalid_result for each in results] == [False, False, True]
        assert WRONG in results[1].feedback and "abstained" in results[2].invalid_reason
    """,
    "haystack-ai": """
        from haystack import Pipeline

        pipeline = Pipeline()
        pipeline.add_component("faithfulness", PlumblineFaithfulness())
        answers = {"questions": ["How old?"] * 3, "contexts": [CONTEXTS] * 3, "predicted_answers": ANSWERS}
        found = pipeline.run({"faithfulness": answers})["faithfulness"]
        right, wrong, declined = found["individual_scores"]
        assert right > 0.9 > 0.5 > wrong and declined is None and found["score"] == (right + wrong) / 2
    """,
    "langchain": """
        import asyncio
        from langchain.agents import create_agent
        from langchain_core.language_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools, **_):
                return self

        def lookup(place: str) -> str:
            "Return what is known of a place."
            return CONTEXT

        def agent_of(*answers, **options):
            call = {"name": "lookup", "args": {"place": "Marlow"}, "id": "1"}
            model = Model(messages=iter([AIMessage("", tool_calls=[call]), *map(AIMessage, answers)]))
            return create_agent(model, tools=[lookup], middleware=[FaithfulnessMiddleware(**options)])

        asked = {"messages": [("user", "How old is it?")]}
        found = [agent_of(each).invoke(asked)["faithfulness"] for each in ANSWERS]
        assert [each["passed"] for each in found] == [True, False, None] and found[2]["status"] == "abstained"
        assert found[1]["unsupported"][0]["text"] == WRONG
        again = agent_of(WRONG, RIGHT, on_unsupported="retry").invoke(asked)
        assert again["messages"][-1].text == RIGHT and again["faithfulness"]["passed"] is True
        twice = asyncio.run(agent_of(WRONG, WRONG, on_unsupported="retry").ainvoke(asked))
        assert twice["messages"][-1].text == WRONG and twice["faithfulness"]["passed"] is False
        try:
            agent_of(WRONG, on_unsupported="error").invoke(asked)
        except UnfaithfulAnswer as error:
            assert "1932" in str(error)
        else:
            raise AssertionError("an answer that is not supported was returned")
    """,
    "dspy": """
        import dspy

        metric = faithfulness
        gold = dspy.Example(question="How old?", context=CONTEXTS).with_inputs("question", "context")
        scored = metric(gold, dspy.Prediction(answer=WRONG))
        assert scored.score < 0.5 and WRONG in scored.feedback
        assert metric(gold, dspy.Prediction(answer=RIGHT), trace=[]) is True
        said = {"How old?": RIGHT, "And how high?": ANSWERS[2]}
        rows = [dspy.Example(question=each, context=CONTEXTS).with_inputs("question", "context") for each in said]
        program = lambda question, context: dspy.Prediction(answer=said[question])
        evaluate = dspy.Evaluate(devset=rows, metric=metric, display_progress=False, num_threads=1)
        assert 45 < evaluate(program).score <= 50
    """,
    "mlflow": """
        import mlflow

        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        outputs = [{"answer": each, "context": CONTEXTS} for each in (RIGHT, ANSWERS[2])]
        rows = [{"inputs": {"question": "How old?"}, "outputs": each} for each in outputs]
        done = mlflow.genai.evaluate(data=rows, scorers=[faithfulness])
        assert done.metrics["faithfulness/mean"] > 0.9
        feedback = faithfulness(inputs=rows[1]["inputs"], outputs=rows[1]["outputs"])
        assert feedback.value is None and feedback.error.error_code == "ValueError"
    """,
    "langsmith": """
        from langsmith.evaluation.evaluator import run_evaluator

        assert faithfulness({"question": "How old?"}, {"answer": WRONG, "contexts": CONTEXTS})["score"] < 0.5
        declined = faithfulness({"question": "How old?"}, {"answer": ANSWERS[2], "contexts": CONTEXTS})
        assert (declined["score"], declined["value"]) == (None, "abstained")
    """,
    "opentelemetry-sdk": """
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from plumbline import Plumbline
        from plumbline.integrations.span_events import add_evaluation_event

        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("app").start_as_current_span("chat"), Plumbline(URL, api_key=KEY) as client:
            for answer in ANSWERS:
                add_evaluation_event(client.evaluate(contexts=CONTEXTS, answer=answer))
        found = [dict(each.attributes) for each in exporter.get_finished_spans()[0].events]
        assert [each["gen_ai.evaluation.score.label"] for each in found] == ["pass", "fail", "abstained"]
        assert ["gen_ai.evaluation.score.value" in each for each in found] == [True, True, False]
    """,
    "langfuse": """
        import http.server, json, threading
        from langfuse.api import CreateScoreRequest
        from langfuse.api.core.pydantic_utilities import parse_obj_as
        from plumbline import Plumbline
        import httpx2
        from plumbline.integrations.trace_scores import langfuse_score

        taken = {}

        class Langfuse(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                score = parse_obj_as(CreateScoreRequest, body)
                taken[score.id] = (score.trace_id, score.value)
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps({"id": score.id}).encode())

        server = http.server.HTTPServer(("127.0.0.1", 0), Langfuse)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Plumbline(URL, api_key=KEY) as client:
            results = {str(n): client.evaluate(contexts=CONTEXTS, answer=each) for n, each in enumerate(ANSWERS)}
        for _ in range(2):
            for trace, result in results.items():
                place = f"http://127.0.0.1:{server.server_port}/api/public/scores"
                httpx2.post(place, json=langfuse_score(trace, result), auth=("pk", "sk")).raise_for_status()
        right, wrong, declined = taken.values()
        assert right[1] > 0.9 > 0.5 > wrong[1] and declined == ("2", "abstained")
    """,
    "arize-phoenix": """
        import json, os, subprocess, sys, time, urllib.request
        from pathlib import Path
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from plumbline import Plumbline
        import httpx2
        from plumbline.integrations.trace_scores import phoenix_annotation

        def write():
            annotations = {"data": [phoenix_annotation(*each) for each in results.items()]}
            httpx2.post(place + "/v1/span_annotations", json=annotations).raise_for_status()

        def free_port():
            import socket
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                return str(free.getsockname()[1])

        port = free_port()
        home = {"PHOENIX_WORKING_DIR": os.getcwd(), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": port}
        home |= {"PHOENIX_GRPC_PORT": free_port(), "PHOENIX_TELEMETRY_ENABLED": "false"}
        phoenix, place = str(Path(sys.executable).with_name("phoenix")), f"http://127.0.0.1:{port}"
        with open("phoenix.log", "w") as log:
            served = subprocess.Popen([phoenix, "serve"], env=os.environ | home, stdout=log, stderr=log)

        def ask(path):
            with urllib.request.urlopen(place + path) as response:
                return json.load(response)

        def wait_for(ready):
            for _ in range(900):
                assert served.poll() is None, Path("phoenix.log").read_text()[-2000:]
                try:
                    if found := ready():
                        return found
                except OSError:
                    pass
                time.sleep(0.2)
            raise AssertionError(Path("phoenix.log").read_text()[-2000:])

        try:
            wait_for(lambda: ask("/v1/projects"))
            provider, spans = TracerProvider(), []
            provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{place}/v1/traces")))
            for _ in ANSWERS:
                with provider.get_tracer("app").start_as_current_span("chat") as span:
                    spans.append(format(span.get_span_context().span_id, "016x"))
            wait_for(lambda: len(ask("/v1/projects/default/spans")["data"]) == 3)
            with Plumbline(URL, api_key=KEY) as client:
                results = dict(zip(spans, (client.evaluate(contexts=CONTEXTS, answer=each) for each in ANSWERS)))
            wanted = "/v1/projects/default/span_annotations?" + "&".join(f"span_ids={each}" for each in spans)
            write()
            wait_for(lambda: len(ask(wanted)["data"]) == 3)
            write()
            time.sleep(2)
            found = {each["span_id"]: each["result"] for each in ask(wanted)["data"]}
            assert len(ask(wanted)["data"]) == 3
            assert [found[each]["label"] for each in spans] == ["faithful", "unfaithful", "abstained"]
            assert found[spans[2]]["score"] is None and WRONG in found[spans[1]]["explanation"]
        finally:
            served.terminate()
            served.wait()
    """,
    "pytest-xdist": """
        import subprocess, sys
        from pathlib import Path

        lines = [
            "import pytest",
            f"CONTEXTS, ANSWERS = {CONTEXTS!r}, {ANSWERS[:2]!r}",
            "@pytest.mark.parametrize('answer', ANSWERS)",
            "def test_alone(plumbline, answer):",
            "    plumbline.assert_faithful(answer, CONTEXTS, question='How old?')",
            "@pytest.mark.plumbline_batch",
            "@pytest.mark.parametrize('answer', ANSWERS)",
            "def test_together(plumbline, answer):",
            "    plumbline.assert_faithful(answer, CONTEXTS)",
        ]
        Path("test_answers.py").write_text("\\n".join(lines))
        command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "--plumbline-gate", "passed_share=0.4"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "1 failed, 3 passed" in done.stdout and WRONG in done.stdout, done.stdout
        assert "gate passed_share: passed: wanted at least 0.4, got 0.5" in done.stdout, done.stdout
    """,
    "mcp": """
        import asyncio, os, socket, subprocess, sys, time
        from pathlib import Path
        from mcp import Client, StdioServerParameters

        plumbline = str(Path(sys.executable).with_name("plumbline"))

        async def ask(server):
            async with Client(server) as client:
                assert {each.name for each in (await client.list_tools()).tools} == {"check_answer", "explain_result"}
                found = [
                    (await client.call_tool("check_answer", {"answer": each, "contexts": CONTEXTS})).structured_content
                    for each in ANSWERS
                ]
                assert [each["passed"] for each in found] == [True, False, None], found
                assert found[1]["unsupported"][0]["text"] == WRONG
                refused = await client.call_tool("explain_result", {"result": {"faithfulness": 1}})
                assert refused.is_error and "no result of Plumbline" in refused.content[0].text

        asyncio.run(ask(StdioServerParameters(command=plumbline, args=["mcp"], env=dict(os.environ))))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        served = subprocess.Popen([plumbline, "mcp", "--http", str(port)])
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert served.poll() is None
                time.sleep(0.1)
            asyncio.run(ask(f"http://127.0.0.1:{port}/mcp"))
        finally:
            served.terminate()
            served.wait()
    """,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_folder(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_service(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.mark.parametrize("package", EXAMPLES)
def test_an_integration_judges_inside_the_real_package_and_an_answer_without_score_is_none(
    service: str, wheel: Path, folder: Path, package: str, tmp_path: Path
) -> None:
    python = python_of(folder, f"{package}-light", pinned(package))
    install_wheel(python, wheel)

    code = recipe(RECIPES[package], has_use=False) if package in RECIPES else ""
    if package == "langchain":
        code = MIDDLEWARE.read_text(encoding="utf-8")
    run_example(python, EXAMPLES[package], service, tmp_path, constants=f"{ANSWERS}{code}\n")
