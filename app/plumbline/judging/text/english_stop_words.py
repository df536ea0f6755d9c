"""scikit-learn's English stop words, taken from its file of them: the package itself takes a second to import."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import cast

_PACKAGE = "sklearn"
_FILE = Path("feature_extraction", "_stop_words.py")
_NAME = "ENGLISH_STOP_WORDS"


def english_stop_words() -> frozenset[str]:
    """The words of `sklearn.feature_extraction.text.ENGLISH_STOP_WORDS`, those of the version installed.

    Its file is no public name of scikit-learn's. Where it is not what it was, the public name is imported.
    """
    words = _words_in_file()
    if words is not None:
        return words
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # noqa: PLC0415

    return cast(frozenset[str], ENGLISH_STOP_WORDS)


def _words_in_file() -> frozenset[str] | None:
    # Finding a package at the top level imports nothing of it.
    package = find_spec(_PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        words = words_of_file(Path(folder) / _FILE)
        if words is not None:
            return words
    return None


def words_of_file(file: Path) -> frozenset[str] | None:
    """The set of words in a Python file of constants; None when it is not there, names none, or needs its package."""
    spec = spec_from_file_location(_NAME, file)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (OSError, ImportError):
        return None
    words = getattr(module, _NAME, None)
    return words if isinstance(words, frozenset) else None
