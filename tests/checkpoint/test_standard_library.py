"""The list of what makes data, held against the Python at hand: enumerations are enumerations, and no function is more than data."""

from __future__ import annotations

import ast
import enum
import importlib
import types
import warnings

import pytest

from importer.checkpoint.standard_library import MAKES_DATA, STANDARD_LIBRARY, canonical_module

_FUNCTIONS = {
    "__newobj__", "__newobj_ex__", "_array_reconstructor", "_compile", "_make_nmtuple", "_reconstructor", "_unpickle", "compile",
    "constructor", "from_iterable", "getLogger", "intern", "iter", "makeLogRecord", "namedtuple", "pickle_complex", "reduce",
    "tee", "NamedTuple", "TypedDict",
}  # fmt: skip
"""Functions on the list, each looked at: they look up, wrap or make, and that is all. Those of `operator` go by their module."""


def found(module: str, name: str) -> object:
    """Return what this Python has under a name, None if it has nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value: object = importlib.import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    return value


@pytest.mark.parametrize(("module", "name"), sorted(MAKES_DATA), ids=".".join)
def test_a_name_on_the_list_is_a_class_or_a_function_looked_at(module: str, name: str) -> None:
    assert canonical_module(module) == module
    assert module.partition(".")[0] in STANDARD_LIBRARY
    value = found(module, name)
    if value is None or isinstance(value, type) or module.startswith(("operator", "dill")):
        return
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        assert name.rpartition(".")[2] in _FUNCTIONS
    else:  # typing.Union, builtins.Ellipsis: values, which no call makes anything of
        assert not isinstance(value, types.ModuleType)


def test_all_nodes_of_syntax_trees_are_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = {name for name, value in vars(ast).items() if isinstance(value, type) and issubclass(value, ast.AST)}
    abstract = {"AST", "AugLoad", "AugStore", "Param", "Suite"} | {name for name in nodes if name.islower()}
    assert {name for name in nodes - abstract if ("ast", name) not in MAKES_DATA} == set()


def test_all_builtin_exceptions_are_there() -> None:
    import builtins

    names = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert {name for name in names if ("builtins", name) not in MAKES_DATA} == set()


@pytest.mark.parametrize(
    "module", ["signal", "socket", "ssl", "http", "inspect", "re", "uuid", "plistlib", "pstats", "enum"]
)
def test_all_enumerations_of_a_module_are_there(module: str) -> None:
    known = importlib.import_module(module)
    names = {
        value.__qualname__
        for value in vars(known).values()
        if isinstance(value, type) and issubclass(value, enum.Enum) and value.__module__ == module
    }
    assert {name for name in names if (module, name) not in MAKES_DATA} == set()
