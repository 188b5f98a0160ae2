"""Registries: losses, networks, detectors, recipes and so on by name."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from patchprint.common.errors import UserError, suggest

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping that answers unknown names with suggestions.

    >>> colors = Registry("color", {"red": 1, "violet": 2})
    >>> colors["violt"]
    Traceback (most recent call last):
    patchprint.common.errors.UserError: there is no color 'violt'; did you mean violet?
    """

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise UserError(f"there is no {self.kind} {name!r}; {suggest(name, self)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def create(self, name: str, /, **options: Any) -> Any:
        """Call the entry, after its options were checked by name."""
        entry: Any = self[name]
        if options:  # looking at signatures takes as long as all else around a match on a GPU
            check_options(f"{self.kind} {name!r}", options, option_names(entry))
            check_option_types(f"{self.kind} {name!r}", options, entry)
        return entry(**options)


def option_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function or class that have a default."""
    arguments = inspect.signature(function).parameters.values()
    return [argument.name for argument in arguments if argument.default is not argument.empty]


def check_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UserError for the first of the ``given`` names that ``owner`` does not know."""
    names = list(known)
    for name in given:
        if name not in names:
            raise UserError(f"{owner} has no option {name!r}; {suggest(name, names)}")


def check_option_types(owner: str, given: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise UserError for the first option that is a text where its default is a number, or the other way round."""
    for name, parameter in inspect.signature(function).parameters.items():
        value, usual = given.get(name), parameter.default
        for kind, words in ((bool, "true or false"), (int | float, "a number"), (str, "a word")):
            if isinstance(usual, kind):
                if value is not None and not isinstance(value, kind):
                    raise UserError(f"{owner}: {name} is {value!r}, which is not {words}")
                break


class LazyRegistry(Registry[T]):
    """A registry of places ``MODULE:ATTRIBUTE`` below ``package``, imported when an entry is asked for."""

    def __init__(self, kind: str, package: str, places: Mapping[str, str]) -> None:
        super().__init__(kind, {})
        self._package, self._entries = package, dict[str, Any](places)

    def __getitem__(self, name: str) -> T:
        module, _, attribute = str(super().__getitem__(name)).partition(":")
        entry: T = getattr(importlib.import_module(f"{self._package}.{module}"), attribute)
        return entry


class FileRegistry(Registry[T]):
    """A registry whose entries are files of one package, imported when an entry is asked for.

    ``NAME.py`` (``_`` for ``-``) holds the entry NAME in the variable ``attribute``. ``variants`` lists further entries of the
    same file, which are called ``NAME-VARIANT``. Files that begin with an underscore hold no entry; ``entries`` stand in no
    file of their own.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        path: Iterable[str],
        attribute: str,
        variants: Callable[[T], Mapping[str, T]] = lambda entry: {},
        entries: Mapping[str, T] = MappingProxyType({}),
    ) -> None:
        super().__init__(kind, entries)
        self._package, self._attribute, self._variants = package, attribute, variants
        self._own = list(entries)
        self._unread = [module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_")]

    def __getitem__(self, name: str) -> T:
        self._read(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._read(str(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._read()
        return iter([*self._own, *sorted(self._entries.keys() - set(self._own))])

    def __len__(self) -> int:
        self._read()
        return len(self._entries)

    def _read(self, name: str | None = None) -> None:
        """Import the files that may hold an entry of this name, or all."""
        for file in list(self._unread):
            stem = file.replace("_", "-")
            if name is None or f"{name}-".startswith(f"{stem}-"):
                entry: T = getattr(importlib.import_module(f"{self._package}.{file}"), self._attribute)
                self._unread.remove(file)
                named = {f"{stem}-{variant}": each for variant, each in self._variants(entry).items()}
                self._entries |= {stem: entry, **named}
