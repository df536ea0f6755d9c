"""What the chunkings with a size have alike."""

from pydantic import Field

from plumbline.extras.lab.chunkings.lengths import Unit
from plumbline.extras.lab.chunkings.parts import Chunking

_DEFAULT_SIZE = 200


class SizedChunking(Chunking):
    """Chunks of at most `size`."""

    size: int = Field(default=_DEFAULT_SIZE, ge=1, description="The longest chunk, in units.")
    unit: Unit = Field(
        default="words",
        description="Words (between blanks, or one Chinese or Japanese character), or a model's tokens.",
    )
    model: str | None = Field(
        default=None, description="Whose tokens: a folder or hub id; left out: the built-in embedding model's."
    )
