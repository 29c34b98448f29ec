"""Which globals are part of the format, and which name a call stands for."""

from __future__ import annotations

import pytest

from importer.checkpoint.vocabulary import is_format, qualified_name
from importer.unpickling import Callee, PersistentId
from tests.builders.pickles import call, glob


@pytest.mark.parametrize(
    "name",
    [
        "torch._utils._rebuild_tensor_v2",
        "torch.FloatStorage",
        "torch.UntypedStorage",
        "torch.cuda.HalfStorage",
        "torch.cuda.FloatTensor",
        "torch.float8_e4m3fn",
        "torch.Size",
        "torch.DoubleTensor",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "collections.OrderedDict",
        "builtins.set",
        "__builtin__.complex",
        "numpy.dtype",
        "numpy._core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "_codecs.encode",
        "copy_reg._reconstructor",
        "__torch__.Net",
    ],
)
def test_the_tensor_format_is_known(name: str) -> None:
    assert is_format(glob(name))


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.modules.linear.Linear",
        "torch.load",
        "torch.cuda.set_device",
        "builtins.eval",
        "collections.defaultdict",
        "numpy.load",
        "os.system",
        "argparse.Namespace",
        "mine.Model",
    ],
)
def test_everything_else_is_foreign(name: str) -> None:
    assert not is_format(glob(name))


@pytest.mark.parametrize(
    ("callee", "name"),
    [
        (glob("m.F"), "m.F"),
        (call("builtins.getattr", call("__builtin__.getattr", glob("m.A"), "B"), "C"), "m.A.B.C"),
        (call("builtins.getattr", PersistentId(1), "B"), None),
        (call("m.F"), None),
        (PersistentId(1), None),
    ],
    ids=str,
)
def test_names_of_nested_classes_are_followed(callee: Callee, name: str | None) -> None:
    found = qualified_name(callee)
    assert (None if found is None else str(found)) == name
