"""Classes and functions a pickle names beyond the tensor format, and the refusal of those that exist to run code.

Nothing is called in any case. Not here: which names are which (`vocabulary`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from importer.budgets import Budget
from importer.checkpoint.conduct import depends_on_argument, hostile_call, hostile_object, indirect_calls
from importer.checkpoint.contents import ForeignGlobal
from importer.checkpoint.structures import pickled_bytes
from importer.checkpoint.vocabulary import is_format, qualified_name
from importer.errors import DangerousPickleError, Location, MalformedPickleError, shown
from importer.unpickling import Call, Unpickled, unpickle

__all__ = ["foreign_globals", "nested_trees", "refuse_hostile"]

_PICKLES_OF_A_STORAGE = 5
_MAX_DEPTH = 4
_HOW = "The file is damaged or was made to mislead; get it again from where it came."


def nested_trees(tree: Unpickled, where: Location, budget: Budget) -> Iterator[Unpickled]:
    """Yield what is pickled in bytes that a call unpickles in turn, as storages within plain pickles are, at any depth.

    Five pickles make a storage in the old layout, which is all that torch puts there.

    Raises:
        SourceError: the bytes are something else, of which nobody can say what unpickling it would do.
        LimitError: they cost more than the budget has left, or are nested too deeply.
    """
    pending = [(tree, 0)]
    for outer, depth in pending:
        seen: set[int] = set()
        for data in outer.nested:
            raw = pickled_bytes(data)
            if id(data) in seen:
                continue
            if raw is None:
                raise MalformedPickleError("what a storage is loaded from is no bytes", where=where, how=_HOW)
            seen.add(id(data))
            if depth >= _MAX_DEPTH:
                raise MalformedPickleError("storages are pickled within storages", where=where, how=_HOW)
            budget.spend(len(raw), where)
            for inner in _pickles(raw, where, budget):
                pending.append((inner, depth + 1))
                yield inner


def _pickles(raw: bytes, where: Location, budget: Budget) -> Iterator[Unpickled]:
    """Yield the pickles that bytes begin with."""
    end = 0
    for _ in range(_PICKLES_OF_A_STORAGE):
        inner = unpickle(raw, where=where, limits=budget.limits, start=end, budget=budget)
        yield inner
        end = inner.end


def refuse_hostile(tree: Unpickled, where: Location) -> None:
    """Refuse a pickle that would run code by a call, as `conduct` has it.

    Raises:
        DangerousPickleError: names the first such call.
    """
    judged = chain(
        (hostile_call(callee) for callee in tree.called if not depends_on_argument(callee)),
        map(hostile_object, tree.instantiated),
        (hostile_call(callee) if is_call else hostile_object(callee) for callee, is_call in indirect_calls(tree)),
    )
    for name in judged:
        if name is not None:
            raise DangerousPickleError(
                f"the pickle calls {shown(name)}, which would run code in a program that unpickles it",
                where=where,
                how="Nothing was run here. Do not load this file with torch or pickle; get the weights as safetensors.",
            )


def foreign_globals(tree: Unpickled) -> tuple[ForeignGlobal, ...]:
    """Return what the pickle names that is not part of the format, in order of appearance."""
    used = [*tree.called, *tree.instantiated, *(callee for callee, _ in indirect_calls(tree))]
    called = {str(name) for callee in used if (name := qualified_name(callee)) is not None}
    nested = (name for callee in used if isinstance(callee, Call) and (name := qualified_name(callee)) is not None)
    names = dict.fromkeys(str(node) for node in (*tree.globals, *nested) if not is_format(node))
    return tuple(ForeignGlobal(name, name in called) for name in names)
