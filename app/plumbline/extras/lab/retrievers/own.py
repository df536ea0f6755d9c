"""A retriever of the user's own: a class in a module that lies beside the experiment file or is installed."""

from importlib import import_module
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.retriever import Retriever
from plumbline.ground.errors import InvalidInput

_METHODS = ("build", "search", "close")


class OwnRetriever(BaseModel):
    """`kind = "python"`: whatever has `build`, `search` and `close` as `plumbline.extras.lab.retriever.Retriever` says.

    The module is run: an experiment file with this kind is to be trusted as any program is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["python"] = "python"
    object: str = Field(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="`module:Class`, called with the options"
    )
    options: dict[str, Any] = Field({}, description="Keyword arguments of the class")

    def make(self) -> Retriever:
        """The user's object.

        Raises:
            InvalidInput: the module or the class is not there, or it lacks a method.
        """
        module_name, _, attribute = self.object.partition(":")
        try:
            made = getattr(import_module(module_name), attribute)(**self.options)
        except ModuleNotFoundError as error:
            wanted = "expected a module beside the experiment file, or an installed one"
            raise InvalidInput(f"there is no module {error.name!r}; {wanted}", place="object") from error
        except AttributeError as error:
            raise InvalidInput(f"module {module_name!r} has no {attribute!r}", place="object") from error
        except TypeError as error:
            raise InvalidInput(f"{attribute} does not take these options: {error}", place="options") from error
        lacking = [method for method in _METHODS if not callable(getattr(made, method, None))]
        if lacking:
            raise InvalidInput(f"{attribute} has no {' and no '.join(lacking)}", place="object")
        return cast("Retriever", made)
