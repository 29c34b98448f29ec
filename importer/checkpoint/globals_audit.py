"""Classes and functions a pickle names beyond the tensor format, and the refusal of those that exist to run code.

Nothing is called in any case. Not here: which names are which (`vocabulary`).
"""

from __future__ import annotations

from itertools import chain

from importer.checkpoint.conduct import hostile_call, hostile_object, indirect_calls
from importer.checkpoint.contents import ForeignGlobal
from importer.checkpoint.vocabulary import is_format, qualified_name
from importer.errors import DangerousPickleError, Location, shown
from importer.unpickling import Call, Unpickled

__all__ = ["foreign_globals", "refuse_hostile"]


def refuse_hostile(tree: Unpickled, where: Location) -> None:
    """Refuse a pickle that would run code by a call, as `conduct` has it.

    Raises:
        DangerousPickleError: names the first such call.
    """
    judged = chain(
        map(hostile_call, tree.called),
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
