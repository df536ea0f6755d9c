"""The base of all messages, and a model as one line of JSON."""

import operator
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, GetCoreSchemaHandler, SkipValidation
from pydantic_core import CoreSchema, PydanticCustomError

from plumbline.ground.texts import load_texts

CODE: Final = "Stable name of what it says, where the text is ours; of a judge's text left out."
FIELDS: Final = "What stands in the places of the text, by name; an object with `code` and `fields` is a text, too."
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


# A text of ours keeps its code as long as it stays in the process.
OurText = Annotated[str, SkipValidation]


class WireModel(BaseModel, extra="forbid", frozen=True):
    """Base of all messages: frozen, and unknown fields are refused."""


def invalid_value(code: str, **fields: str | int) -> PydanticCustomError:
    """Return the error for a validator to raise: the text of ours with this code."""
    return PydanticCustomError(code, load_texts("en")[code], fields)


class SparseModel(WireModel):
    """Base of the parts of a result: a field with a default is left out of JSON where it has it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        fields: dict[str, Any] = handler.resolve_ref_schema(schema)["schema"]["fields"]
        for field in fields.values():
            if field["schema"]["type"] == "default":
                # As `Field(exclude_if=...)` of each of them
                field["serialization_exclude_if"] = partial(operator.eq, field["schema"]["default"])
        return schema


# JSON lets them stand as they are; readers that split lines as Unicode does would cut a row in two.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_line(model: BaseModel) -> bytes:
    """Encode the model in UTF-8, without the line end."""
    line = model.model_dump_json()
    for end, escape in _LINE_ENDS.items():
        line = line.replace(end, escape)
    return line.encode()
