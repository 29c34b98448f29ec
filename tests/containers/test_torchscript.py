"""Code records of TorchScript archives: which attributes are parameters, which buffers."""

from __future__ import annotations

import pytest

from importer.containers import ScriptClass, open_container
from importer.containers.torchscript import parse_classes
from importer.errors import CorruptContainerError, Location
from tests.builders.states import MODEL, WEIGHT, View, boolean, built, glob, pickled, table, tensor
from tests.builders.zips import Entry, build_zip
from tests.containers.conftest import Save, content, pickle_container, records

SOURCE = b"""\
class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = ["mask", "odd.name", ]
  weight : Tensor
  training : bool
  __annotations__["0"] = __torch__.torch.nn.modules.linear.Linear
  scale : Final[float] = 1.
  def forward(self: __torch__.Net,
      x: Tensor) -> Tensor:
    y : Tensor = torch.mul(x, self.weight)
    return y
class Pair(NamedTuple):
  first : Tensor
def helper(x: Tensor) -> Tensor:
  return x
class Old(Module):
  __parameters__ = []
  mask : Tensor
"""

WHERE = Location(path="model.pt", record="code/__torch__.py")


def script_archive(source: bytes = SOURCE) -> bytes:
    """Return an archive of one module with a parameter and a plain attribute."""
    attributes = table({"weight": tensor(View(WEIGHT, (2, 3), (3, 1))), "training": boolean(value=True)})
    return build_zip(
        [
            Entry("m/data.pkl", pickled(built(glob("__torch__", "Net"), attributes))),
            Entry("m/data/0", WEIGHT.data),
            Entry("m/code/__torch__.py", source),
            Entry("m/constants.pkl", b"\x80\x02)."),
            Entry("m/version", b"3\n"),
        ]
    )


def test_module_classes_are_told_with_parameters_and_buffers() -> None:
    net, old = parse_classes(SOURCE, "__torch__", WHERE)
    assert net == ScriptClass(
        "__torch__.Net",
        frozenset({"weight"}),
        frozenset({"mask", "odd.name"}),
        {
            "weight": "Tensor",
            "training": "bool",
            "0": "__torch__.torch.nn.modules.linear.Linear",
            "scale": "Final[float] = 1.",
        },
    )
    assert old == ScriptClass("__torch__.Old", frozenset(), None, {"mask": "Tensor"})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"  __parameters__ = [name]", id="a variable"),
        pytest.param(b"  __parameters__ = [1]", id="a number"),
        pytest.param(b'  __parameters__ = ["a" + "b"]', id="an expression"),
        pytest.param(b'  __annotations__["\\N{no such sign}"] = Tensor', id="an escape"),
    ],
)
def test_names_that_are_no_literals_are_refused(line: bytes) -> None:
    with pytest.raises(CorruptContainerError, match="no list of attribute names"):
        list(parse_classes(b"class Net(Module):\n" + line, "m", WHERE))


def test_the_archive_carries_the_classes_its_pickle_names(save: Save) -> None:
    path = save(script_archive())
    container = pickle_container(open_container(path))
    assert container.kind == "torchscript"
    assert container.script is not None
    assert container.script["__torch__.Net"].parameters == {"weight"}
    assert content(records(path)["0"].storage) == WEIGHT.data


def test_a_class_without_code_record_is_left_out(save: Save) -> None:
    data = script_archive().replace(b"code/__torch__.py", b"code/__other__.py")
    assert pickle_container(open_container(save(data))).script == {}


def test_a_frozen_model_is_noted(save: Save) -> None:
    entries = [
        Entry("m/data.pkl", pickled(built(glob("__torch__", "Net"), table({"training": boolean(value=False)})))),
        Entry("m/constants/0", WEIGHT.data),
        Entry("m/constants.pkl", b"\x80\x02)."),
    ]
    notes = pickle_container(open_container(save(build_zip(entries)))).notes
    assert notes == ("the model was frozen: its weights are constants of the code and have no names",)


def test_an_ordinary_archive_has_no_classes(save: Save) -> None:
    body = pickled(tensor(MODEL["fc.weight"]))
    data = build_zip([Entry("m/data.pkl", body), Entry("m/data/0", WEIGHT.data)])
    assert pickle_container(open_container(save(data))).script is None


@pytest.mark.parametrize("source", [b"", b"  indented\n", b"\n\n"], ids=["empty", "no-statement", "blank"])
def test_a_code_record_without_statements_has_no_classes(source: bytes) -> None:
    assert list(parse_classes(source, "__torch__", WHERE)) == []
