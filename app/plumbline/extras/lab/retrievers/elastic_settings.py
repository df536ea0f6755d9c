"""Settings of an Elasticsearch or OpenSearch server; credentials by names of environment variables alone."""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from plumbline.extras.lab.corpus import Chunk
from plumbline.ground.errors import InvalidInput

Flavour = Literal["elasticsearch", "opensearch"]
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class ServerSettings(BaseModel):
    """Address, credentials and lifecycle of the index: the same for every kind of query."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["elasticsearch"]
    url: str = Field("http://localhost:9200", description="Address of one node or of a proxy, without user or query.")
    flavour: Flavour | None = Field(None, description="The kind of server; None: detect it.")
    api_key_env: str | None = Field(
        None, pattern=_VARIABLE, description="Environment variable with an Elasticsearch API key (encoded form)."
    )
    username_env: str | None = Field(None, pattern=_VARIABLE, description="Environment variable with a user's name.")
    password_env: str | None = Field(None, pattern=_VARIABLE, description="Environment variable with the password.")
    ca_certs: Path | None = Field(None, description="PEM file of the authority that signed the server's certificate.")
    index_prefix: str = Field(
        "plumbline-lab",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$",
        description="The index is called <prefix>-<digest of settings and chunks>.",
    )
    keep: bool = Field(False, description="Keep the index on the server at the end.")
    merge: bool = Field(True, description="Merge the index into one segment before it is searched.")
    batch: int = Field(500, ge=1, le=10_000, description="Chunks in one bulk request, at most; bytes bound it too.")
    timeout_seconds: float = Field(60.0, gt=0, le=3600, description="Read timeout of a request, in seconds.")

    @field_validator("url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        if any(mark in url for mark in "@?#"):
            # a ValueError would be shown together with the value, and with it a password
            raise InvalidInput("url: expected no user and no query; name variables in username_env and password_env")
        scheme, _, rest = url.partition("://")
        if scheme not in ("http", "https") or not rest.partition("/")[0]:
            raise ValueError("expected http:// or https:// with a host, like http://localhost:9200")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.username_env is None) != (self.password_env is None):
            raise ValueError("username_env and password_env: expected both or neither")
        if self.api_key_env and self.username_env:
            raise ValueError("expected api_key_env, or username_env and password_env, and not both")
        return self

    def credentials(self) -> str | None:
        """Return the value of the Authorization header; None without credentials.

        Raises:
            InvalidInput: a variable is not set, or holds what no header can.
        """
        if self.api_key_env:
            key = _read_variable(self.api_key_env)
            if not key.isascii():
                raise InvalidInput(f"the environment variable {self.api_key_env} holds no key in its encoded form")
            return f"ApiKey {key}"
        if self.username_env and self.password_env:
            pair = f"{_read_variable(self.username_env)}:{_read_variable(self.password_env)}"
            return f"Basic {b64encode(pair.encode()).decode()}"
        return None

    def secrets(self) -> tuple[str, ...]:
        """Return the values that no message may hold: the key or password, and the header with it."""
        names = [name for name in (self.api_key_env, self.password_env) if name]
        return (*map(_read_variable, names), *(self.credentials() or "").split()[1:])


def _read_variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise InvalidInput(f"the environment variable {name} is not set; the experiment file names it for credentials")
    if not value.isprintable():
        raise InvalidInput(f"the environment variable {name} holds characters that no header can carry")
    return value


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Flavour and version of a server; an empty version (credentials may not read it) counts as recent."""

    flavour: Flavour
    version: tuple[int, ...]

    @property
    def engine(self) -> str:
        """Return name and version for a report."""
        name = "OpenSearch" if self.flavour == "opensearch" else "Elasticsearch"
        return f"{name} {'.'.join(map(str, self.version)) or '(version not told)'}"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """All that differs between the kinds of query.

    `properties`: the mapping's. `sources`: the bodies of some chunks, in their order. `search`: the body for a query
    and k. `stated`: what decides the ranking. `settings`: of the index, besides those that every index has.
    `processors`: of the pipeline that each chunk passes, none when empty. `unkept`: fields that the server need not
    give back, as vectors, which only make the stored source larger.
    """

    properties: Mapping[str, Any]
    sources: Callable[[Sequence[Chunk]], list[dict[str, Any]]]
    search: Callable[[str, int], dict[str, Any]]
    stated: Mapping[str, str | int | float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    processors: Sequence[Mapping[str, Any]] = ()
    unkept: Sequence[str] = ()


# Raises InvalidInput where the settings do not fit the chunks or the server.
Planner = Callable[[ServerFacts, Sequence[Chunk]], IndexPlan]
