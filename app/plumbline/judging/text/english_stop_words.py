"""English stop words of scikit-learn, read from its file: importing the package takes a second."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import cast

_FILE = Path("feature_extraction", "_stop_words.py")
_NAME = "ENGLISH_STOP_WORDS"


def english_stop_words() -> frozenset[str]:
    """Return `sklearn.feature_extraction.text.ENGLISH_STOP_WORDS` of the installed version.

    Its file is no public name of scikit-learn's. Where it is not what it was, the public name is imported.
    """
    # Finding a package at the top level imports nothing of it.
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        words = read_word_set(Path(folder) / _FILE)
        if words is not None:
            return words
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # noqa: PLC0415

    return cast(frozenset[str], ENGLISH_STOP_WORDS)


def read_word_set(file: Path) -> frozenset[str] | None:
    """Return the set of words in a Python file of constants; None if it is missing, or needs its package."""
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
