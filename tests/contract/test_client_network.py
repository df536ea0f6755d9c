"""The client on networks with proxies, and with an authority of their own."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.client import AsyncPlumbline, NotReached, Plumbline, Retries
from plumbline.ground.errors import ConfigurationError
from tests.doubles.scripted_proxy import ScriptedProxy, self_signed
from tests.doubles.scripted_service import ScriptedService, in_turn, json_answer, result_of

SAMPLE: dict[str, Any] = {"contexts": ["It is so."], "answer": "It is so."}
ONCE = Retries(attempts=1)
URL = "http://service.example/plumbline"


def ask(url: str) -> str | None:
    with Plumbline(url, "key-of-the-caller", retries=ONCE) as client:
        return client.evaluate(**SAMPLE).id


async def ask_async(url: str) -> str | None:
    async with AsyncPlumbline(url, "key-of-the-caller", retries=ONCE) as client:
        return (await client.evaluate(**SAMPLE)).id


@pytest.fixture(autouse=True)
def _own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with ScriptedService(in_turn(json_answer(result_of("q1")))) as service:
        yield service


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_the_proxy_of_the_environment_is_used(
    kind: Any, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(service.url.rpartition(":")[2])
    async with ScriptedProxy(kind, port, credentials=("user", "pa:ss")) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url(userinfo="user:pa%3Ass"))
        assert (await asyncio.to_thread(ask, URL), await ask_async(URL)) == ("q1", "q1")
        assert proxy.connections == 2
        # This machine is asked directly.
        assert (await asyncio.to_thread(ask, service.url), await ask_async(service.url)) == ("q1", "q1")
        assert proxy.connections == 2

    assert service.asked[0].headers["host"] == "service.example"
    assert service.asked[0].path.endswith("/plumbline/v1/evaluations")
    assert "proxy-authorization" not in service.asked[-1].headers


async def test_a_proxy_that_refuses_is_told_without_its_password(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedProxy("http", 1, credentials=("user", "right")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url(userinfo="user:wr0ng"))
        with pytest.raises(NotReached, match="407") as caught:
            await ask_async("https://service.example")

    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("address", ["ftp://user:s3cret@proxy.example", "socks4://user:s3cret@h:1", "http://h:port"])
@pytest.mark.parametrize("client", [Plumbline, AsyncPlumbline])
def test_a_variable_that_is_no_proxy_is_refused_without_its_value(
    client: type[Plumbline | AsyncPlumbline], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", address)

    with pytest.raises(ConfigurationError, match="ALL_PROXY: not the URL of a proxy") as refused:
        client(URL)

    assert "s3cret" not in str(refused.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    return self_signed(tmp_path_factory.mktemp("tls"), "service.example")


@pytest.fixture
async def secured_url(certificate: Path) -> AsyncIterator[str]:
    body = json.dumps(result_of("q1")).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_an_authority_of_the_network_is_trusted(
    variable: str, secured_url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotReached, match="CERTIFICATE_VERIFY_FAILED"):
        await ask_async(secured_url)

    monkeypatch.setenv(variable, str(certificate))
    assert (await asyncio.to_thread(ask, secured_url), await ask_async(secured_url)) == ("q1", "q1")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_certificates_that_cannot_be_read_are_named(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "missing.pem"))

    with pytest.raises(ConfigurationError, match=f"{variable}: has no certificates that can be read"):
        Plumbline("https://service.example")
