"""Which calls of a pickle make data, which are refused as running code, and which nobody can judge."""

from __future__ import annotations

import pytest

from importer.checkpoint.conduct import hostile_call, hostile_object, indirect_calls
from importer.checkpoint.globals_audit import foreign_globals, refuse_hostile
from importer.errors import DangerousPickleError
from importer.unpickling import Callee, Global, PersistentId, Unpickled, unpickle
from tests.builders.pickles import call, dump, encode, glob
from tests.checkpoint.conftest import WHERE


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "posix.system",
        "nt.system",
        "builtins.eval",
        "__builtin__.apply",
        "__builtin__.execfile",
        "subprocess.Popen",
        "subprocess.check_output",
        "runpy._run_code",
        "commands.getoutput",
        "importlib.import_module",
        "pickle.loads",
        "builtins.print",
        "builtins.open",
        "io.open",
        "_io.FileIO",
        "webbrowser.open",
        "uuid._get_command_stdout",
        "pathlib.Path.write_text",
        "pathlib.PosixPath.unlink",
        "logging.FileHandler",
        "collections.abc.Callable.os.system",
        "signal.alarm",
        "signal.raise_signal",
        "os.kill",
        "socket.create_connection",
        "inspect.getsource",
        "operator.call",
        "functools.singledispatch",
        "dill._dill._eval_repr",
        "dill._dill._create_filehandle",
        "dill.loads",
        "dill._dill.loads",
        "ctypes.CDLL",
        "asyncio.unix_events._UnixSubprocessTransport._start",
        "_aix_support._read_cmd_output",
        "timeit.timeit",
        "re.sre_compile.os.system",
    ],
)
def test_the_standard_library_beyond_data_is_hostile(name: str) -> None:
    assert hostile_call(glob(name)) == name


@pytest.mark.parametrize(
    "callee",
    [
        call("functools.partial", glob("os.system")),
        call("builtins.getattr", call("cloudpickle.cloudpickle.subimport", "os"), "system"),
        call("builtins.getattr", call("dill._dill._import_module", "os"), "system"),
        call("dill._dill._get_attr", call("dill._dill._import_module", "posix"), "system"),
        call("operator.attrgetter", "system"),
        call("operator.methodcaller", "run"),
        call("operator.getitem", glob("sys.modules"), "os"),
        call("types.FunctionType", call("types.CodeType", 0), {}),
        call("cloudpickle.cloudpickle._make_function", call("types.CodeType", 0), {}),
        call("dill._dill._create_function", call("dill._dill._create_code", 0)),
        call("builtins.type", "X", (), {}),
        call("mine.factory"),
    ],
    ids=str,
)
def test_calling_what_another_call_gives_is_hostile(callee: Callee) -> None:
    assert hostile_call(callee) is not None


@pytest.mark.parametrize(
    "callee",
    [
        glob("mine.Model"),
        glob("torch._utils._rebuild_tensor_v2"),
        glob("collections.OrderedDict"),
        glob("collections.defaultdict"),
        glob("datetime.datetime"),
        glob("pathlib.PosixPath"),
        glob("pathlib._local.PosixPath"),
        glob("argparse.Namespace"),
        glob("builtins.set"),
        glob("builtins.range"),
        glob("__builtin__.xrange"),
        glob("builtins.getattr"),
        glob("builtins.type"),
        glob("builtins.ValueError"),
        glob("exceptions.ValueError"),
        glob("io.BytesIO"),
        glob("_io.BytesIO"),
        glob("cStringIO.StringI"),
        glob("operator.getitem"),
        glob("_operator.getitem"),
        glob("signal.Signals"),
        glob("socket.AddressFamily"),
        glob("http.HTTPStatus"),
        glob("inspect._ParameterKind"),
        glob("inspect.Signature"),
        glob("os.stat_result"),
        glob("posix.stat_result"),
        glob("os.terminal_size"),
        glob("time.struct_time"),
        glob("contextlib.nullcontext"),
        glob("itertools.count"),
        glob("types.CodeType"),
        glob("types.FunctionType"),
        glob("types.GenericAlias"),
        glob("dill._dill._create_function"),
        glob("dill._dill._create_code"),
        glob("dill._dill._load_type"),
        glob("subprocess.CalledProcessError"),
        glob("numpy.core.multiarray.scalar"),
        call("builtins.getattr", glob("mine.Outer"), "Inner"),
        call("builtins.getattr", glob("itertools.chain"), "from_iterable"),
        call("builtins.getattr", glob("zoneinfo.ZoneInfo"), "_unpickle"),
        call("cloudpickle.cloudpickle._builtin_type", "CodeType"),
        call("dill._dill._load_type", "CodeType"),
        call("cloudpickle.cloudpickle._make_skeleton_enum", (), "Colour", "Colour", {}, "mine", None, None),
        call("collections.namedtuple", "Point", "x y"),
        call("functools.partial", glob("mine.f")),
        PersistentId(("module", glob("mine.Net"), "net.py", "class Net: ...")),
    ],
    ids=str,
)
def test_data_and_third_party_classes_are_not_hostile(callee: Callee) -> None:
    assert hostile_call(callee) is None


def test_a_module_reached_through_another_one_is_hostile() -> None:
    assert hostile_call(Global("torch.hub", "os.system")) == "torch.hub.os.system"


@pytest.mark.parametrize(
    ("callee", "name"),
    [
        (glob("subprocess.Popen"), "subprocess.Popen"),
        (glob("code.InteractiveInterpreter"), "code.InteractiveInterpreter"),
        (glob("os.system"), "os.system"),
        (glob("builtins.eval"), "builtins.eval"),
        (call("mine.factory"), "the result of another call"),
        (glob("logging.Logger"), None),
        (glob("email.message.Message"), None),
        (glob("string.Formatter"), None),
        (glob("builtins.object"), None),
        (glob("mine.Model"), None),
        (call("cloudpickle.cloudpickle._make_skeleton_class", glob("builtins.type"), "C", (), {}, "mine", None), None),
        (call("dill._dill._create_type", glob("builtins.type"), "C", (), {}), None),
    ],
    ids=str,
)
def test_empty_objects_pass_unless_their_module_is_made_for_running_code(callee: Callee, name: str | None) -> None:
    assert hostile_object(callee) == name


def tree(value: object) -> Unpickled:
    return unpickle(dump(value), where=WHERE)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (call("builtins.map", glob("os.system"), ["x"]), "os.system"),
        (call("collections.deque", call("__builtin__.map", glob("os.system"), ["x"])), "os.system"),
        (call("functools.reduce", glob("os.execv"), ["x"]), "os.execv"),
        (call("itertools.starmap", glob("os.system"), [("x",)]), "os.system"),
        (call("itertools.accumulate", ["x"], glob("os.system")), "os.system"),
        (call("builtins.filter", call("functools.partial", glob("os.system"), "x"), ["x"]), "os.system"),
        (call("copyreg._reconstructor", glob("subprocess.Popen"), glob("subprocess.Popen"), "x"), "subprocess.Popen"),
        (call("copyreg._reconstructor", glob("subprocess.Popen"), glob("builtins.object"), None), "subprocess.Popen"),
        (call("copy_reg.__newobj__", glob("subprocess.Popen")), "subprocess.Popen"),
        (call("builtins.setattr", glob("torch.nn.Module"), "forward", glob("mine.f")), "builtins.setattr"),
        (call("__builtin__.setattr", glob("sys.modules"), "__name__", "x"), "__builtin__.setattr"),
        (call("builtins.delattr", call("dill._dill._import_module", "os"), "system"), "builtins.delattr"),
        (call("dill._dill._setattr", call("mine.factory"), "a", 1), "dill._dill._setattr"),
        (call("__builtin__.reduce", glob("os.execv"), ["x"]), "os.execv"),
        (call("torch._tensor._rebuild_from_type_v2", glob("os.system"), glob("mine.T"), ("x",), {}), "os.system"),
    ],
    ids=repr,
)
def test_what_is_called_in_turn_is_refused_by_name(value: object, name: str) -> None:
    with pytest.raises(DangerousPickleError, match=name):
        refuse_hostile(tree(value), WHERE)


@pytest.mark.parametrize(
    "value",
    [
        call("functools.reduce", glob("_operator.or_"), [glob("builtins.int"), glob("builtins.str")]),
        call("builtins.map", glob("builtins.str"), [1]),
        call("copyreg._reconstructor", glob("mine.C"), glob("builtins.object"), None),
        call("copyreg._reconstructor", glob("mine.C"), glob("builtins.dict"), {}),
        call("builtins.type", None),
        call("builtins.setattr", call("dill._dill._create_type", glob("builtins.type"), "C", (), {}), "a", 1),
        call("builtins.setattr", glob("__main__.C"), "__qualname__", "f.<locals>.C"),
        call(
            call("builtins.getattr", glob("dill._dill"), "_setattr"),
            call("dill._dill._create_cell", None),
            "cell_contents",
            1,
        ),
        call(call("dill._dill._load_type", "bytes"), [1]),
        call("_collections._tuplegetter", 0, ""),
        call("_operator.getitem", glob("typing.Dict"), (glob("builtins.str"), glob("typing.Any"))),
        call("mine.C", glob("os.system")),
        call("builtins.iter", [1]),
    ],
    ids=repr,
)
def test_data_made_by_way_of_functions_passes(value: object) -> None:
    refuse_hostile(tree(value), WHERE)


def test_what_is_called_in_turn_is_marked_as_called() -> None:
    found = foreign_globals(tree(call("torch._tensor._rebuild_from_type_v2", glob("mine.f"), glob("mine.T"), (), {})))
    assert {item.name: item.called for item in found} == {"mine.f": True, "mine.T": False}


def test_old_style_objects_are_calls() -> None:
    with pytest.raises(DangerousPickleError, match=r"posix\.abort"):
        refuse_hostile(unpickle(b"(iposix\nabort\n.", where=WHERE), WHERE)


def test_indirect_calls_of_odd_arguments_are_none() -> None:
    assert (
        list(indirect_calls(tree([call("builtins.map"), call("copyreg._reconstructor", 1), call("builtins.map", [1])])))
        == []
    )


def test_a_call_whose_result_is_thrown_away_counts() -> None:
    thrown = b"\x80\x02" + encode(call("builtins.map", glob("os.system"), ["x"])) + b"0N."
    with pytest.raises(DangerousPickleError, match=r"os\.system"):
        refuse_hostile(unpickle(thrown, where=WHERE), WHERE)
