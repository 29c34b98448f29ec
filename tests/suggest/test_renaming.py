"""Few rules, and exactly the moves that were asked for: run by the engine itself."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from importer.arrays import full
from importer.checkpoint import Tensor
from importer.dtypes import F32
from importer.recipes import apply_recipe, parse_recipe
from importer.suggest.comparison import Move
from importer.suggest.renaming import RenameRule, rename_rules


def modules(pairs: dict[str, str]) -> list[Move]:
    return [Move(source, target, is_tensor=False) for source, target in pairs.items()]


def weights(paths: dict[str, str]) -> list[str]:
    return [f"{path}.weight" for path in paths]


def engine(rules: tuple[RenameRule, ...], names: list[str]) -> dict[str, str]:
    """Apply the rules as a recipe does."""
    lines = [f"  - {rule}" for rule in rules]
    text = "\n".join(["recipe: 1", "name: moves", "strip: []", "rename:", *(lines or ["  []"])])
    tensors = {name: Tensor(name, full(0, F32, (1,))) for name in names}
    return {entry.sources[0]: entry.name for entry in apply_recipe(parse_recipe(text), tensors, None).entries}


CASES = [
    pytest.param(
        {f"model.layers.{n}.self_attn.{p}_proj": f"layers.{n}.attention.w{p}" for n in range(3) for p in "qkvo"},
        [r"^model\.layers\.(\d+)\.self_attn\.(q|k|v|o)_proj\."],
        id="layers and siblings",
    ),
    pytest.param(
        {"bert.embeddings.word": "embeddings.word", "bert.embeddings.pos": "embeddings.pos", "bert.pooler": "pooler"},
        [r"^bert\."],
        id="a prefix",
    ),
    pytest.param(
        {f"layer{s}.{n}.conv1": f"layer{s}.blocks.{n}.Basic.conv1" for s in (1, 2) for n in (0, 1)}
        | {f"layer{s}.{n}.conv2": f"layer{s}.blocks.{n}.Basic.conv2" for s in (1, 2) for n in (0, 1)},
        [r"^(layer1|layer2)\.(\d+)\."],
        id="an enum segment",
    ),
    pytest.param({"fc": "fc", "norm": "norm"}, [], id="nothing to do"),
    pytest.param(
        {f"f.{n}.ln_{k}": f"g.{n}.norm_{k}" for n in range(2) for k in (1, 2)},
        [r"^f\.(\d+)\.ln_(1|2)\."],
        id="numbered words",
    ),
]


@pytest.mark.parametrize(("pairs", "patterns"), CASES)
def test_moves_become_the_rules_a_person_would_write(pairs: dict[str, str], patterns: list[str]) -> None:
    names = weights(pairs)
    rules = rename_rules(modules(pairs), names)
    assert [rule.pattern for rule in rules] == patterns
    assert engine(rules, names) == {f"{source}.weight": f"{target}.weight" for source, target in pairs.items()}


def test_names_can_be_swapped() -> None:
    pairs = {"norm1": "norm2", "norm2": "norm1"}
    assert engine(rename_rules(modules(pairs), weights(pairs)), weights(pairs)) == {
        "norm1.weight": "norm2.weight",
        "norm2.weight": "norm1.weight",
    }


def test_one_layer_may_differ_from_the_others() -> None:
    pairs = {f"f.{n}.conv.0": f"f.{n}.pw" for n in (2, 3)} | {"f.1.conv.0": "f.1.dw"}
    assert engine(rename_rules(modules(pairs), weights(pairs)), weights(pairs)) == {
        f"{source}.weight": f"{target}.weight" for source, target in pairs.items()
    }


def test_a_single_tensor_moves_alone() -> None:
    moves = [Move("lm_head.bias", "lm_head.decoder.bias", is_tensor=True)]
    names = ["lm_head.bias", "lm_head.dense.bias"]
    moves += modules({"lm_head.dense": "lm_head.dense"})
    assert engine(rename_rules(moves, names), names) == {
        "lm_head.bias": "lm_head.decoder.bias",
        "lm_head.dense.bias": "lm_head.dense.bias",
    }


PATHS = st.lists(st.sampled_from(["a", "b", "ab", "b_1", "0", "1", "10", "x$", "it's"]), min_size=1, max_size=4).map(
    ".".join
)


@example({"a": "a", "1": "1", "0": "a.0"})
@given(st.dictionaries(PATHS, PATHS, min_size=1, max_size=8))
def test_any_moves_to_distinct_places_come_out_as_asked(pairs: dict[str, str]) -> None:
    by_target = {target: source for source, target in pairs.items()}
    pairs = {source: target for target, source in by_target.items()}
    below = [s for s in pairs if any(other != s and other.startswith(f"{s}.") for other in pairs)]
    pairs = {s: t for s, t in pairs.items() if s not in below}
    names = weights(pairs)
    wanted = {f"{source}.weight": f"{target}.weight" for source, target in pairs.items()}
    assert engine(rename_rules(modules(pairs), names), names) == wanted
