"""Calls every operation by a generated Python client; run as `call_python.py attrs|pydantic URL KEY REQUESTS`.

Prints a JSON object: of each operation a word of its answer, as the client read it.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

# An operation, the job's id if it has one, the name of its body's model and the body: what was answered, as plain data.
Call = Callable[..., Any]


def by_openapi_python_client(url: str, key: str) -> Call:
    """Calls the functions of `plumbline_attrs`."""
    package = import_module("plumbline_attrs")
    models = import_module("plumbline_attrs.models")
    client = package.AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True)
    folder = Path(package.__file__ or "").parent / "api"

    def call(operation: str, *job: str, model: str = "", body: Any = None) -> Any:
        group = next(folder.glob(f"*/{operation}.py")).parent.name
        module = import_module(f"plumbline_attrs.api.{group}.{operation}")
        options = {"body": getattr(models, model).from_dict(body)} if model else {}
        parsed = module.sync_detailed(*job, client=client, **options).parsed
        return _plain(parsed)

    return call


def by_openapi_generator(url: str, key: str) -> Call:
    """Calls the methods of `plumbline_pydantic`."""
    package: Any = import_module("plumbline_pydantic")
    client = package.ApiClient(package.Configuration(host=url, access_token=key))
    apis = [getattr(package, f"{name}Api")(client) for name in ("Evaluation", "Retrieval", "Jobs", "Operations")]

    def call(operation: str, *job: str, model: str = "", body: Any = None) -> Any:
        if operation == "get_job_results":
            # It reads no lines; each of its operations has a form that leaves the answer alone.
            operation = "get_job_results_without_preload_content"
        if operation == "evaluate":
            # A model that is one of two is a class of its own here.
            model = "SampleOrConversation"
        method = next(found for api in apis if (found := getattr(api, operation, None)))
        bodies = [getattr(package, model).from_dict(body)] if model else []
        try:
            return _plain(method(*job, *bodies))
        except package.ApiException as error:
            return json.loads(error.body)

    return call


def _plain(parsed: Any) -> Any:
    if isinstance(parsed, dict):
        return {name: _plain(value) for name, value in parsed.items()}
    if hasattr(parsed, "to_dict"):
        return parsed.to_dict()
    return getattr(parsed, "data", parsed)


def say_all(call: Call, requests: dict[str, Any]) -> dict[str, object]:
    """Returns a word of each operation's answer."""

    def post(operation: str, model: str, request: str, *job: str) -> Any:
        return call(operation, *job, model=model, body=requests[request])

    job = post("submit_job", "JobRequest", "job")["id"]
    while (state := call("get_job", job)["status"]) in ("queued", "running"):
        time.sleep(0.05)
    comparison = post("compare_retrieval", "ComparisonRequest", "retrieval")["comparisons"][0]
    return {
        "health": call("health")["status"],
        "readiness": call("readiness")["status"],
        "version": call("version")["name"],
        "metrics": "plumbline_" in call("metrics"),
        "evaluate": post("evaluate", "EvaluationRequest", "sample")["tier"],
        "evaluate_batch": ["result" in each for each in post("evaluate_batch", "BatchRequest", "batch")["results"]],
        "evaluate_retrieval": post("evaluate_retrieval", "RetrievalEvaluationRequest", "retrieval")["runs"][0]["name"],
        "compare_retrieval": len(comparison["ci95"]),
        "fuse_retrieval": next(iter(post("fuse_retrieval", "FusionRequest", "fusion")["results"]["q1"])),
        "submit_job": job.startswith("job_"),
        "get_job": state,
        "list_jobs": job in [each["id"] for each in call("list_jobs")["jobs"]],
        "get_job_results": json.loads(call("get_job_results", job))["custom_id"],
        "get_job_report": "<html" in call("get_job_report", job),
        **{f"{action}_job": call(f"{action}_job", job)["status"] for action in ("pause", "resume", "cancel")},
        "retry_job": post("retry_job", "RetryRequest", "retry", job)["status"],
        "delete_job": call("delete_job", job),
    }


if __name__ == "__main__":
    _, client, url, key, path = sys.argv
    build = {"attrs": by_openapi_python_client, "pydantic": by_openapi_generator}[client]
    sys.stdout.write(json.dumps(say_all(build(url, key), json.loads(Path(path).read_text(encoding="utf-8")))))
