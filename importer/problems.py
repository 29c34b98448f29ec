"""What becomes of a tensor that does not reach the output: something is wrong with it, or somebody left it out.

Found by every stage - rules, adapters, the plan - and listed by the report; none of these stops a run by itself. Not here:
errors that do (`importer.errors`), and what the target lacks or nobody asked for (`importer.plan`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem", "Skipped"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a tensor, and the one action that mends it.

    Attributes:
        name: the tensor, by the name it has at that stage; a leaf inside an adapter, where "" is the whole module.
        message: what is wrong, one clause.
        how: what to do.
        sources: names of the source tensors that reach no output because of it.
    """

    name: str
    message: str
    how: str
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.message}. {self.how}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source tensor that was left out: by which rule or option, and why if that does not say it."""

    name: str
    rule: str
    reason: str = ""
