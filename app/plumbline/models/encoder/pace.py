"""How fast the model works, to tell how long what waits will take."""

import threading

# Of the newest batch in the average.
_WEIGHT = 0.1
# The first batches prepare what later ones find ready: they say nothing of those.
_FIRST = 8


class EncodingPace:
    """Tokens a second of one thread, averaged over the last batches. Safe for several threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._rate = 0.0
        self._batches = 0
        self._lock = threading.Lock()

    def add(self, tokens: int, seconds: float) -> None:
        """One thread has worked on so many tokens for so long."""
        rate = tokens / max(seconds, 1e-6)
        with self._lock:
            self._batches += 1
            if self._batches > _FIRST:
                self._rate = rate if not self._rate else (1 - _WEIGHT) * self._rate + _WEIGHT * rate

    def seconds_for(self, tokens: int) -> float:
        """What all threads together take for so many; 0 before anything was measured."""
        return tokens / (self._rate * self._threads) if self._rate else 0.0
