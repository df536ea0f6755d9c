"""Keys: kept as digests, compared in constant time, changed by whoever runs the service, seen without a restart."""

import contextlib
import hashlib
import hmac
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from plumbline.ground.errors import ConfigurationError, InvalidInput, KeyExpired, KeyUnknown
from plumbline.service.access.access import Keyring
from plumbline.service.access.keys import (
    MAX_KEYS,
    KeyFile,
    Scope,
    StoredKey,
    StoredLimits,
    create_key,
    read_keys,
    revoke_key,
    rotate_key,
    write_keys,
)

CONFIGURED = "key-of-the-settings-1"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "keys.json"


class Clock:
    """Both clocks of a keyring, set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)


def made(path: Path, name: str = "ci", concurrency: int | None = None) -> str:
    return create_key(path, name, scopes=[Scope.EVALUATE], concurrency=concurrency, now=NOON)


def ring(path: Path, *configured: str, clock: Clock | None = None, default: int | None = None) -> Keyring:
    clock = clock or Clock()
    return Keyring(configured, path, default_concurrency=default, monotonic=clock.monotonic, now=clock.now)


# --- the file


def test_a_key_is_long_random_and_kept_as_its_digest_alone(path: Path) -> None:
    secret = made(path)

    kept = path.read_text()
    # 32 bytes in base64 without padding
    assert len(secret.removeprefix("plumbline_")) == 43
    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept
    assert secret != made(path, "other")


def test_file_and_folder_are_for_their_owner_alone(path: Path) -> None:
    made(path)
    made(path, "second")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in path.parent.iterdir()) == [".keys.json.lock", "keys.json"]


def test_the_tenant_is_not_made_of_the_secret_and_each_has_its_own(path: Path) -> None:
    secrets = [made(path, name) for name in ("a", "b")]

    tenants = [ring(path).key_of([secret.encode()]).tenant for secret in secrets]
    digests = [hashlib.sha256(secret.encode()).hexdigest() for secret in secrets]
    assert len({*tenants, *digests}) == 4


def test_writers_at_one_time_lose_nothing(path: Path) -> None:
    names = [f"key-{number}" for number in range(24)]
    writers = [threading.Thread(target=made, args=(path, name)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(key.name for key in read_keys(path).keys) == sorted(names)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "a" * 65, "schlüssel", "configured-1", "a\n"])
def test_a_name_that_cannot_be_one_is_refused(path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        made(path, name)

    assert not path.exists()


def test_there_are_only_so_many_keys(path: Path) -> None:
    path.parent.mkdir()
    write_keys(
        path, KeyFile(keys=tuple(StoredKey(name=f"k{n}", tenant=f"t{n}", created=NOON) for n in range(MAX_KEYS)))
    )

    with pytest.raises(InvalidInput, match="1000"):
        made(path)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"version": 2}', '{"keys": [{"name": "a"}]}', '{"keys": 1}', '{"keys": [], "more": 1}', "\x00"],
)
def test_a_file_of_another_form_is_refused_without_its_content(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)

    with pytest.raises(ConfigurationError, match="is no file of keys"):
        read_keys(path)


# --- what opens


def test_a_comparison_takes_the_same_path_for_every_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [made(path, f"key-{number}") for number in range(5)]
    keyring = ring(path, CONFIGURED)
    compared: list[tuple[int, int]] = []

    def counting(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", counting)
    counts = []
    for secret in (*secrets, CONFIGURED, "of nobody", "", "x" * 10_000):
        compared.clear()
        with contextlib.suppress(KeyUnknown):
            keyring.key_of([secret.encode()])
        counts.append(list(compared))

    # one constant-time comparison of digests with each of six keys, whichever it is and whether it is one
    assert counts == [[(32, 32)] * 6] * 9


def test_a_key_of_the_settings_opens_everything_and_keeps_its_tenant(path: Path) -> None:
    key = ring(path, "first-key-00000001", CONFIGURED).key_of([CONFIGURED.encode()])

    assert (key.name, key.scopes) == ("configured-2", frozenset(Scope))
    # as since the first version: jobs of before stay visible
    assert key.tenant == hashlib.sha256(CONFIGURED.encode()).hexdigest()


def test_the_first_secret_sent_that_opens_counts(path: Path) -> None:
    secret = made(path)

    assert ring(path).key_of([b"for a proxy", secret.encode()]).name == "ci"


@pytest.mark.parametrize("sent", [b"", b"plumbline_", b"\xff" * 50])
def test_what_is_no_key_opens_nothing(path: Path, sent: bytes) -> None:
    made(path)

    with pytest.raises(KeyUnknown):
        ring(path).key_of([sent])


def test_a_key_that_expires_opens_until_then(path: Path) -> None:
    clock = Clock()
    secret = create_key(path, "a", scopes=[Scope.JOBS], expires_days=2, now=NOON)
    keyring = ring(path, clock=clock)

    clock.seconds = 2 * 86_400 - 1
    assert keyring.key_of([secret.encode()]).name == "a"
    clock.seconds += 1
    with pytest.raises(KeyExpired):
        keyring.key_of([secret.encode()])
    assert keyring.is_needed
    assert not keyring.has_open_key()


# --- changes while a service runs


def test_a_new_key_opens_and_a_revoked_one_does_not_a_second_later(path: Path) -> None:
    clock = Clock()
    keyring = ring(path, clock=clock)
    assert not keyring.is_needed

    secret = made(path)
    clock.seconds = 1.0
    key = keyring.key_of([secret.encode()])
    revoke_key(path, "ci")
    # the file is looked at once a second at most
    assert keyring.key_of([secret.encode()]) == key
    clock.seconds = 2.0
    with pytest.raises(KeyUnknown):
        keyring.key_of([secret.encode()])
    assert keyring.pause_reason(key.tenant)


def test_revoking_the_last_key_opens_nothing(path: Path) -> None:
    made(path)
    revoke_key(path, "ci")

    keyring = ring(path)

    assert keyring.is_needed
    assert not keyring.has_open_key()


def test_a_file_that_is_gone_has_no_keys_and_one_is_needed_still(path: Path) -> None:
    clock = Clock()
    secret = made(path)
    keyring = ring(path, clock=clock)

    path.unlink()
    clock.seconds = 1.0

    with pytest.raises(KeyUnknown):
        keyring.key_of([secret.encode()])
    assert keyring.is_needed


def test_a_file_that_is_damaged_leaves_the_keys_and_is_told_once(path: Path) -> None:
    clock = Clock()
    secret = made(path)
    keyring = ring(path, clock=clock)

    path.write_text("{ oops")
    with capture_logs() as logs:
        for second in range(1, 5):
            clock.seconds = second
            assert keyring.key_of([secret.encode()]).name == "ci"
    assert [each["event"] for each in logs] == ["keys_unreadable"]

    path.unlink()
    made(path, "mended")
    clock.seconds = 6.0
    with pytest.raises(KeyUnknown):
        keyring.key_of([secret.encode()])


def test_a_rotated_key_has_another_secret_and_the_same_tenant(path: Path) -> None:
    old = made(path, concurrency=7)
    before = ring(path).key_of([old.encode()])

    new = rotate_key(path, "ci")

    keyring = ring(path)
    assert keyring.key_of([new.encode()]) == before
    with pytest.raises(KeyUnknown):
        keyring.key_of([old.encode()])


def test_the_old_secret_is_good_for_as_long_as_it_is_kept(path: Path) -> None:
    clock = Clock()
    first = made(path)
    second = rotate_key(path, "ci", keep_old_hours=2, now=NOON)
    third = rotate_key(path, "ci", keep_old_hours=1, now=NOON)
    keyring = ring(path, clock=clock)

    for hours, good in ((0.9, (first, second, third)), (1.0, (third,))):
        clock.seconds = hours * 3_600
        for secret in (first, second, third):
            if secret in good:
                assert keyring.key_of([secret.encode()]).name == "ci"
            else:
                with pytest.raises(KeyExpired):
                    keyring.key_of([secret.encode()])
    # what is past is not carried along
    rotate_key(path, "ci", keep_old_hours=1, now=NOON + timedelta(hours=5))
    assert len(read_keys(path).keys[0].secrets) == 2


def test_rotating_brings_a_revoked_key_back_to_its_jobs(path: Path) -> None:
    secret = made(path)
    tenant = ring(path).key_of([secret.encode()]).tenant
    revoke_key(path, "ci")

    new = rotate_key(path, "ci", keep_old_hours=5)

    keyring = ring(path)
    assert keyring.key_of([new.encode()]).tenant == tenant
    assert keyring.pause_reason(tenant) is None
    with pytest.raises(KeyUnknown):
        keyring.key_of([secret.encode()])


def test_an_expired_key_is_not_rotated(path: Path) -> None:
    create_key(path, "a", scopes=[Scope.JOBS], expires_days=1, now=NOON)

    with pytest.raises(InvalidInput, match="expired"):
        rotate_key(path, "a", now=NOON + timedelta(days=1))


# --- limits


@pytest.mark.parametrize(("own", "expected"), [(None, 4), (2, 2), (0, None)])
def test_a_limit_is_that_of_the_key_then_that_of_the_settings_and_0_is_none(
    path: Path, own: int | None, expected: int | None
) -> None:
    secret = made(path, concurrency=own)

    keyring = ring(path, CONFIGURED, default=4)

    assert keyring.key_of([secret.encode()]).concurrency == expected
    assert keyring.key_of([CONFIGURED.encode()]).concurrency == keyring.anonymous.concurrency == 4


OF_0_2 = """{"version": 1, "keys": [
 {"name": "ci", "tenant": "tenant-1", "secrets": [{"digest": "%s", "until": null}], "scopes": ["evaluate"],
  "limits": {"requests_per_minute": 600, "concurrency": 8, "tokens_per_day": 0, "cost_per_day": 2.5},
  "created": "2026-01-01T00:00:00Z", "expires": null, "revoked": null},
 {"name": "free", "tenant": "tenant-2", "secrets": [], "scopes": ["jobs"],
  "limits": {"requests_per_minute": 60, "concurrency": null, "tokens_per_day": null, "cost_per_day": null},
  "created": "2026-01-01T00:00:00Z", "expires": null, "revoked": null}
]}"""


def test_a_file_of_0_2_with_rates_and_budgets_is_read_with_one_warning(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(OF_0_2 % hashlib.sha256(b"of 0.2").hexdigest())

    with capture_logs() as logs:
        key = ring(path).key_of([b"of 0.2"])

    assert (key.name, key.concurrency) == ("ci", 8)
    assert [(each["event"], each["limits"]) for each in logs] == [
        ("key_limits_ignored", ["cost_per_day", "requests_per_minute"])
    ]
    revoke_key(path, "free")
    assert read_keys(path).ignored_limits() == []
    assert read_keys(path).keys[0].limits == StoredLimits(concurrency=8)


def test_a_limit_that_never_was_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(OF_0_2.replace("tokens_per_day", "tokens_per_year") % ("0" * 64))

    with pytest.raises(ConfigurationError, match=r"at keys\.0\.limits"):
        read_keys(path)


def test_jobs_of_a_revoked_key_may_not_go_on(path: Path) -> None:
    tenants = [ring(path).key_of([secret.encode()]).tenant for secret in (made(path, "gone"), made(path, "open"))]
    revoke_key(path, "gone")

    keyring = ring(path)

    reasons = [keyring.pause_reason(tenant) for tenant in (*tenants, "of a key that is not known here", "")]
    assert reasons == ["the key of this job was revoked", None, None, None]
