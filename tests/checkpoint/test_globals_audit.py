"""The list of foreign classes and functions, and the refusal of pickles that exist to run code."""

from __future__ import annotations

import pytest

from importer.checkpoint.contents import ForeignGlobal
from importer.checkpoint.globals_audit import foreign_globals, refuse_hostile
from importer.errors import DangerousPickleError
from importer.unpickling import Unpickled, unpickle
from tests.builders.pickles import call, dump, encode, glob, tensor
from tests.checkpoint.conftest import WHERE


def tree(value: object) -> Unpickled:
    return unpickle(dump(value), where=WHERE)


def test_what_is_named_is_listed_and_whether_it_would_be_called() -> None:
    nested = call(call("builtins.getattr", glob("m.Outer"), "Inner"))
    found = foreign_globals(tree([tensor(), call("m.Net"), glob("m.Key"), nested, call("datetime.date", b"")]))
    assert found == (
        ForeignGlobal("m.Net", called=True),
        ForeignGlobal("m.Key", called=False),
        ForeignGlobal("builtins.getattr", called=True),
        ForeignGlobal("m.Outer", called=False),
        ForeignGlobal("datetime.date", called=True),
        ForeignGlobal("m.Outer.Inner", called=True),
    )


def test_a_plain_state_dict_names_nothing_foreign() -> None:
    assert foreign_globals(tree({"w": tensor()})) == ()


def test_a_call_that_would_run_code_is_refused_by_name() -> None:
    with pytest.raises(DangerousPickleError, match=r"calls 'posix\.system'") as caught:
        refuse_hostile(tree({"w": tensor(), "x": call("posix.system", "true")}), WHERE)
    assert caught.value.exit_code == 3


def test_a_call_whose_result_is_thrown_away_is_refused_as_well() -> None:
    thrown = b"\x80\x02" + encode(call("os.system", "true")) + b"0N."
    with pytest.raises(DangerousPickleError, match=r"os\.system"):
        refuse_hostile(unpickle(thrown, where=WHERE), WHERE)


@pytest.mark.parametrize(
    "value",
    [
        glob("os.system"),
        call("argparse.Namespace", state={"lr": 1}),
        call("pathlib.PosixPath", "a", "b"),
        call("m.Net", glob("os.system")),
        call("functools.partial", glob("m.f")),
    ],
    ids=repr,
)
def test_names_and_data_are_not_refused(value: object) -> None:
    refuse_hostile(tree(value), WHERE)
