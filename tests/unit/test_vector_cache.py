"""Kept vectors: bounded in bytes, the least recently used go first, apart by caller."""

import numpy as np

from plumbline.models.encoder.packing import build_vector_cache, make_key

# 100 bytes of numbers and 300 around them.
VECTORS = np.zeros((5, 10), dtype=np.float16)


def test_the_least_recently_used_go_first() -> None:
    cache = build_vector_cache(1_000)
    cache.put(b"a", VECTORS)
    cache.put(b"b", VECTORS)
    cache.get(b"a")
    cache.put(b"c", VECTORS)

    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    assert cache.bytes == 800


def test_what_is_larger_than_all_room_is_not_kept() -> None:
    cache = build_vector_cache(300)
    cache.put(b"a", VECTORS)

    assert (cache.get(b"a"), cache.bytes) == (None, 0)


def test_what_is_put_twice_counts_once() -> None:
    cache = build_vector_cache(1_000)
    cache.put(b"a", VECTORS)
    cache.put(b"a", VECTORS)

    assert cache.bytes == 400


def test_keys_tell_tokens_and_callers_apart() -> None:
    keys = [make_key(tokens, scope) for tokens in ([1, 2], [12], [1, 2, 0]) for scope in (b"", b"x", b"y")]

    assert len(set(keys)) == 9
    assert make_key([1, 2], b"x") == make_key((1, 2), b"x")
