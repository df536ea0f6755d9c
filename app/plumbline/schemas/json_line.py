"""A model as one line of JSON, by whatever ends of lines its reader knows."""

from pydantic import BaseModel

# JSON lets them stand as they are; readers that split lines as Unicode does would cut a row in two.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_line(model: BaseModel) -> bytes:
    """The model in UTF-8, the end of the line not included."""
    line = model.model_dump_json()
    for end, escape in _LINE_ENDS.items():
        line = line.replace(end, escape)
    return line.encode()
