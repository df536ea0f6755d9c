"""The base of all messages, and a model as one line of JSON."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class WireModel(BaseModel):
    """Base of all messages: frozen, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def is_none(value: object) -> bool:
    """Return True for None: a field that is left out then."""
    return value is None


# JSON lets them stand as they are; readers that split lines as Unicode does would cut a row in two.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_line(model: BaseModel) -> bytes:
    """Encode the model in UTF-8, without the line end."""
    line = model.model_dump_json()
    for end, escape in _LINE_ENDS.items():
        line = line.replace(end, escape)
    return line.encode()
