"""Version of the distribution, stated here alone; the build reads it from this file."""

from typing import Final

VERSION: Final = "0.3.0"
USER_AGENT: Final = f"plumbline/{VERSION}"
