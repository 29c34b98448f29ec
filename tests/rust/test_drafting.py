"""What `importer rust` writes: names and nesting of the target, numbers of the checkpoint, one struct for equal modules.

That Rust compiles it and Burn loads a file into it is `tests/burn/generated`'s.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from importer.conversion import convert
from importer.errors import UnsupportedError, UsageError
from importer.options import Options
from importer.rust import rust_of_checkpoint, rust_of_recipe, rust_of_target
from tests.builders.tables import safetensors, safetensors_entry
from tests.families.synthetic import load, write

FAMILIES = Path("fixtures/families")


def test_a_model_is_one_struct_a_module_with_sizes_as_fields_of_its_config() -> None:
    text = rust_of_checkpoint(FAMILIES / "llama")
    assert "pub struct Llama {\n    pub tok_embeddings: nn::Embedding,\n    pub layers: Vec<Layer>," in text
    assert "    /// `hidden_size` of config.json\n    #[config(default = 32)]\n    pub hidden_size: usize," in text
    assert "(0..config.num_hidden_layers)" in text
    assert "config.num_attention_heads * config.head_dim" in text
    assert "config.rms_norm_eps" in text


def test_enum_variants_optional_parts_and_differing_sizes_become_enums_options_and_arguments() -> None:
    text = rust_of_checkpoint(FAMILIES / "resnet18")
    assert re.search(r"pub enum Block \{\n    Basic\(\w+\),\n\}", text)
    assert re.search(r"pub downsample: Option<\w+>,", text)
    assert "conv1_channels: [usize; 2]," in text


def test_head_counts_come_from_the_config_of_their_tower_and_are_asked_for_where_nothing_tells_them() -> None:
    assert re.search(r"default = 4\)\]\n    pub n_heads: usize", rust_of_checkpoint(FAMILIES / "bert"))
    told = rust_of_checkpoint(FAMILIES / "bert" / "model.safetensors", Options(recipe="bert"))
    assert "n_heads: usize" in told


def test_a_saved_module_needs_no_recipe_and_says_what_it_leaves_open(tmp_path: Path) -> None:
    convert(FAMILIES / "minilm", tmp_path / "fresh.bpk")
    text = rust_of_target(tmp_path / "fresh.bpk", name="my-model")
    assert "pub struct MyModel {" in text
    assert "nn::transformer::TransformerEncoderLayer" in text
    assert "// check: Embedding or Linear?" in text
    assert "// norm_first is not in the weights" in text


def test_a_recipe_alone_takes_its_numbers_and_names_all_that_are_missing() -> None:
    with pytest.raises(UsageError, match=r"needs 2 more numbers.*--set intermediate_size=… --set vocab_size=…"):
        rust_of_recipe("gpt-neox", {"hidden_size": 8, "num_hidden_layers": 2})
    text = rust_of_recipe("inception_v3", {"classes": 7})
    assert "#[config(default = 7)]" in text
    with pytest.raises(UsageError, match="declares no target"):
        rust_of_recipe("torch", {})


def _file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Path:
    """Write a safetensors file with these parameters, as a Burn program would."""
    header: dict[str, object] = {}
    position = 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = safetensors_entry("F32", shape, position, position + size)
        position += size
    path.write_bytes(safetensors(header, bytes(position)))
    return path


def test_a_list_of_different_layers_is_a_tuple_and_gaps_are_identities(tmp_path: Path) -> None:
    text = rust_of_target(
        _file(tmp_path / "m.safetensors", {"net.0.weight": (4, 8), "net.0.bias": (8,), "net.2.gamma": (8,)})
    )
    assert "pub net: (nn::Linear, nn::Identity, nn::RmsNorm)," in text


def test_a_list_of_lists_with_different_lengths_gets_slices(tmp_path: Path) -> None:
    shapes = {"s.0.0.fc.weight": (4, 8), "s.0.1.fc.weight": (8, 8), "s.1.0.fc.weight": (8, 16)}
    text = rust_of_target(_file(tmp_path / "m.safetensors", shapes))
    assert "pub s: Vec<Vec<S>>," in text
    assert "let n_s = [2, 1];" in text or "let n_inner = [2, 1];" in text


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a-b.weight"], "cannot be a Rust field"),
        (["layer.type.weight"], "cannot be a Rust field"),
        (["0.weight", "1.weight"], "needs named fields at the top"),
        (["x.0.weight", "x.name.weight"], "numbers and names side by side"),
    ],
)
def test_what_no_rust_type_holds_is_refused_with_the_name(tmp_path: Path, names: list[str], message: str) -> None:
    path = _file(tmp_path / "m.safetensors", dict.fromkeys(names, (4, 8)))
    with pytest.raises(UnsupportedError, match=message):
        rust_of_target(path)


def test_more_than_ten_different_layers_in_a_list_are_refused(tmp_path: Path) -> None:
    shapes = {f"net.{number}.weight": (4, 8) if number % 2 else (4, 8, 3) for number in range(11)}
    with pytest.raises(UnsupportedError, match="tuples of up to ten"):
        rust_of_target(_file(tmp_path / "m.safetensors", shapes))


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="rustfmt is not installed")
@pytest.mark.parametrize("name", ["llama", "resnet50", "densenet121", "unet_sdxl", "wav2vec2", "segformer", "sam"])
def test_the_file_is_as_rustfmt_would_have_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "module.rs"
    path.write_text(rust_of_checkpoint(write(load(name), tmp_path / name).parent), encoding="utf-8")
    run = subprocess.run(
        ["rustfmt", "--edition", "2024", "--check", str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout
