"""Judge calls through proxies: HTTP by CONNECT and by absolute-form, SOCKS 5, NO_PROXY, and proxies that refuse."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from plumbline.ground.errors import BatchApiError, ConfigurationError
from plumbline.ground.proxies import find_proxy, proxy_place
from plumbline.judging.ports.exchange import Ledger
from plumbline.models.chat.api_client import join_url
from plumbline.models.chat.batch_api import BatchApi
from plumbline.models.chat.endpoints import PROVIDERS, Endpoint
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_proxy import ScriptedProxy, self_signed
from tests.doubles.scripted_replies import completion
from tests.doubles.scripted_transport import ask, failure_of, transport
from tests.making.cases import load_cases

GOOD = '{"ok": true}'
URL = "http://judge.example/v1"
TLS_URL = "https://judge.example/v1"
PASSWORD = "pa:ss w0rd"
USERINFO = "user:pa%3Ass%20w0rd"


def port_of(judge: ScriptedJudge) -> int:
    return int(judge.base_url.removesuffix("/v1").rpartition(":")[2])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for judge.example and 127.0.0.1, with its key in the same file."""
    return self_signed(tmp_path_factory.mktemp("tls"), "judge.example")


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@asynccontextmanager
async def secured(port: int, certificate: Path) -> AsyncIterator[int]:
    """The port of a TLS server in front of one without."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, out = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                target.write(data)

        tasks = [asyncio.ensure_future(copy(reader, out)), asyncio.ensure_future(copy(inner, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for each in (out, writer):
            each.transport.abort()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


# --- the ways through


async def test_an_http_judge_is_asked_by_absolute_form_on_kept_connections(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(completion(GOOD))

    async with ScriptedProxy("http", port_of(judge), credentials=("user", PASSWORD)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(userinfo=USERINFO))
        async with transport(llm_base_url=URL) as chat:
            replies = [await ask(chat) for _ in range(3)]

    assert [reply.content for reply in replies] == [GOOD] * 3
    assert proxy.targets == ["http://judge.example/v1/chat/completions"]
    assert (proxy.connections, judge.calls) == (1, 3)
    assert judge.requests[0].headers["host"] == "judge.example"


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", ["http", "socks5"])
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
async def test_an_https_judge_is_asked_through_a_tunnel(
    kind: str, variable: str, judge: ScriptedJudge, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(completion(GOOD))

    async with (
        secured(port_of(judge), certificate) as port,
        ScriptedProxy(kind, port, credentials=("user", PASSWORD)) as proxy,  # type: ignore[arg-type]
    ):
        monkeypatch.setenv(variable, proxy.url(userinfo=USERINFO))
        async with transport(llm_base_url=TLS_URL) as chat:
            replies = [await ask(chat) for _ in range(3)]

    assert [reply.content for reply in replies] == [GOOD] * 3
    assert proxy.targets == ["judge.example:443"]
    assert (proxy.connections, judge.calls) == (1, 3)
    # the proxy's credentials are for the proxy alone, and the judge's key is not for the proxy
    assert "proxy-authorization" not in judge.requests[0].headers
    assert judge.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_a_socks_proxy_resolves_the_name_of_the_judge(
    scheme: str, judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(completion(GOOD))

    async with ScriptedProxy("socks5", port_of(judge)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url(scheme=scheme))
        async with transport(llm_base_url=URL) as chat:
            replies = await asyncio.gather(*(ask(chat) for _ in range(4)))

    assert [reply.content for reply in replies] == [GOOD] * 4
    assert set(proxy.targets) == {"judge.example:80"}
    assert judge.requests[0].path == "/v1/chat/completions"


# --- the ways past


@pytest.mark.parametrize("no_proxy", ["", "judge.example"])
async def test_a_judge_on_this_machine_is_asked_directly(
    no_proxy: str, judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(completion(GOOD))
    monkeypatch.setenv("NO_PROXY", no_proxy)

    async with ScriptedProxy("socks5", port_of(judge)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url())
        async with transport(judge) as chat:
            assert (await ask(chat)).content == GOOD

    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("url", "no_proxy", "is_direct"), load_cases("judge_proxies", "no_proxy_and_loopback_hosts_go_past_the_proxy")
)
def test_no_proxy_and_loopback_hosts_go_past_the_proxy(
    url: str, no_proxy: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)

    found = find_proxy(httpx2.URL(url))

    assert (found is None) == is_direct
    assert found is None or proxy_place(found) == "proxy.example:3128"


# --- proxies that refuse


@pytest.mark.parametrize("userinfo", ["", "user:wr0ng"])
@pytest.mark.parametrize(("kind", "url"), [("http", URL), ("http", TLS_URL), ("socks5", URL)])
async def test_a_proxy_that_wants_other_credentials_is_named_without_them(
    kind: str, url: str, userinfo: str, judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedProxy(kind, port_of(judge), credentials=("user", PASSWORD)) as proxy:  # type: ignore[arg-type]
        monkeypatch.setenv("ALL_PROXY", proxy.url(userinfo=userinfo))
        async with transport(llm_base_url=url) as chat:
            first, second = await failure_of(chat), await failure_of(chat)

    assert (first.reason, second.reason, proxy.connections) == ("connection", "circuit_open", 1)
    assert first.detail.startswith(f"no connection to judge.example: the proxy 127.0.0.1:{proxy.port} refused it (")
    assert "wrong or missing credentials" in first.detail
    assert "wr0ng" not in first.detail
    assert judge.calls == 0


@pytest.mark.parametrize(
    ("kind", "refusal", "words"), [("http", 502, "HTTP 502"), ("socks5", 5, "(Connection refused)")]
)
async def test_a_proxy_that_cannot_reach_the_judge_is_tried_again(
    kind: str, refusal: int, words: str, judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedProxy(kind, port_of(judge), refusal=refusal) as proxy:  # type: ignore[arg-type]
        monkeypatch.setenv("ALL_PROXY", proxy.url())
        async with transport(llm_base_url=TLS_URL) as chat:
            failure = await failure_of(chat)

    assert (failure.reason, proxy.connections) == ("connection", 3)
    assert words in failure.detail


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_is_not_there_is_a_broken_connection(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedProxy("http", 1) as proxy:
        port = proxy.port
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://user:s3cret@127.0.0.1:{port}")

    async with transport(llm_base_url=URL) as chat:
        failure = await failure_of(chat)

    assert failure.detail == f"no connection to judge.example through the proxy 127.0.0.1:{port} (ConnectError)"


@pytest.mark.parametrize(
    "address",
    ["ftp://user:s3cret@proxy.example", "socks4://user:s3cret@h:1080", "http://user:s3cret@", "http://h:port:1"],
)
def test_a_variable_that_is_no_proxy_is_refused_at_the_start_without_its_value(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", address)

    with pytest.raises(ConfigurationError, match="ALL_PROXY: not the URL of a proxy") as refused:
        find_proxy(httpx2.URL(URL))

    assert "s3cret" not in str(refused.value)


# --- certificates


async def test_a_certificate_that_is_not_trusted_is_not_tried_again(judge: ScriptedJudge, certificate: Path) -> None:
    ledger = Ledger()

    async with (
        secured(port_of(judge), certificate) as port,
        transport(llm_base_url=f"https://127.0.0.1:{port}/v1") as chat,
    ):
        first = await failure_of(chat, ledger=ledger)
        second = await failure_of(chat, ledger=ledger)

    assert (first.reason, second.reason, ledger.usage.calls) == ("connection", "circuit_open", 0)
    assert "certificate not trusted" in first.detail


async def test_the_certificates_of_requests_are_trusted_too(
    judge: ScriptedJudge, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(completion(GOOD))
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))

    async with (
        secured(port_of(judge), certificate) as port,
        transport(llm_base_url=f"https://127.0.0.1:{port}/v1") as chat,
    ):
        assert (await ask(chat)).content == GOOD


# --- the address that is asked


@pytest.mark.parametrize(
    ("base_url", "url"), load_cases("judge_proxies", "the_path_is_joined_to_the_base_url_as_urls_are")
)
def test_the_path_is_joined_to_the_base_url_as_urls_are(base_url: str, url: str) -> None:
    assert str(join_url(base_url, "/chat/completions")) == url


# --- the other clients


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_the_batch_api_is_reached_through_a_socks_proxy(
    scheme: str, judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedProxy("socks5", port_of(judge)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url(scheme=scheme))
        async with aclosing(BatchApi(Endpoint(PROVIDERS["generic"], URL, "judge-1", "key"))) as api:
            with pytest.raises(BatchApiError):
                await api.create("file", endpoint="/v1/chat/completions", window="24h")

    assert proxy.targets == ["judge.example:80"]
    assert judge.requests[0].path == "/v1/batches"
