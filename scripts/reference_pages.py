"""A reference page for every section and every operation, from the declaration that the loader and the schema read.

Each page says what the key means, what it takes, which keys stand below it, and shows it at work. The examples are written
here, and a test reads each of them as a recipe. Not here: the declaration (`importer.recipes.reading.sections`), and the
tables of docs/recipes.md (`reference`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from importer.recipes.reading.accept_schema import ACCEPT_FIELDS
from importer.recipes.reading.operation_schema import OPERATIONS
from importer.recipes.reading.schema import Field
from importer.recipes.reading.section_schema import DTYPE_FIELDS
from importer.recipes.reading.sections import RECIPE
from importer.recipes.reading.step_schema import STEP_FIELDS
from importer.recipes.reading.template_schema import RESERVED_KEYS

__all__ = ["OPERATION_EXAMPLES", "SECTION_EXAMPLES", "field_table", "reference_pages"]

_MADE = "<!-- generated from scripts/reference_pages.py: python -m scripts.reference docs -->"
_COMMON_KEYS = ("match", "into", "when")
_BELOW: Mapping[str, Sequence[Field[object]]] = {
    "accepts": ACCEPT_FIELDS,
    "tensors": STEP_FIELDS,
    "target": RESERVED_KEYS,
    "dtype": DTYPE_FIELDS,
}

SECTION_EXAMPLES: Mapping[str, str] = {
    "recipe": "recipe: 1",
    "name": "name: my-encoder",
    "about": "about: My encoder, exported since spring, for the Burn struct Encoder",
    "extends": "extends: llama                   # or ./base.yaml",
    "accepts": """\
accepts:
  - BertModel                                  # architectures, model_type, arch or _class_name
  - classes: 'vit_(tiny|small|base)_patch\\d+_\\d+'
  - {config: {library: torch}, has: [d_model, nhead]}
  - names: ['^encoder\\.layer\\.0\\.attention\\.self\\.query\\.weight$']
    without: ['^decoder\\.']
    model_type: bert                           # what config.json may say where it names no class
  - unless:                                    # alone: for all entries
      is_decoder: 'the target attends to both sides'
    requires:
      "coalesce(position_embedding_type, 'absolute') == 'absolute'": 'the target adds absolute positions'
    unlike:
      'NewBert(Model|For\\w+)': 'its norms have no bias'""",
    "config": """\
config:
  d: hidden_size
  kv: num_key_value_heads or num_attention_heads
  ctx: text_config.max_position_embeddings     # nested fields by their path""",
    "settings": """\
settings:
  norm eps: rms_norm_eps
  rotary theta: coalesce(rope_parameters.rope_theta, rope_theta, 10000)
  activation: coalesce(hidden_act, 'silu')""",
    "unwrap": "unwrap: [ema_state_dict, state_dict]         # the first that the file has",
    "strip": "strip: ['module.', 'model.']                 # each only where every name has it",
    "keep": "keep: ['^visual\\.']                           # one tower of two",
    "drop": """\
drop:
  - '\\.num_batches_tracked$'
  - '\\.rotary_emb\\.inv_freq$'""",
    "rename": """\
rename:
  - ['^encoder\\.layer\\.(\\d+)\\.', 'layers.$1.']
  - ['\\.LayerNorm\\.', '.norm.']                 # sees what the rule above has made
  - ['^up\\.{i}\\.', 'up.{3 - i}.']               # {i} is a number to reckon with""",
    "renumber": "renumber: ['^fc\\.']                           # fc.0, fc.2, fc.5 become fc.0, fc.1, fc.2",
    "alias": """\
alias:
  lm_head.weight: embed_tokens.weight          # a head that is tied in every model of the family
  head.weight: {from: embed.weight, when: 'coalesce(tie_word_embeddings, False)'}""",
    "stored_as": """\
stored_as:
  Conv1D: '\\.(c_attn|c_proj|c_fc)$'            # GPT-2 stores these as [in, out]""",
    "tensors": """\
tensors:
  - match: '^(.*)\\.qkv\\.(weight|bias)$'
    split: 3
    into: ['$1.query.$2', '$1.key.$2', '$1.value.$2']
  - match: '\\.norm\\.weight$'
    map: '1 + x'""",
    "target": """\
config: {d: hidden_size, n: num_hidden_layers}
target:
  embed: Embedding(1000, d)
  layers.{n}:                                  # layers.0, layers.1, …
    fc: Linear(d, 4 * d)
    norm: LayerNorm(d)
  scale: Param(d)                              # a bare parameter""",
    "types": """\
types:
  - ['^layers\\.\\d+$', TransformerEncoderLayer(norm_first=True)]
  - ['\\.norm$', LayerNorm]
  - ['\\.fc\\d*$', Linear]""",
    "dtype": """\
dtype:
  default: float16
  rules:
    - ['\\.norm\\.', float32]
  ints: keep""",
    "variants": "variants: skip                   # names without the segments written <Basic>",
}
"""A short recipe text for every section; completed by `recipe` and `name` each is a recipe."""

OPERATION_EXAMPLES: Mapping[str, str] = {
    "rearrange": """\
- match: '\\.q_proj\\.(weight|bias)$'             # rotate-half rows become adjacent pairs
  rearrange: '(h two r) ... -> (h r two) ...'
  sizes: {h: 8, two: 2}""",
    "split": """\
- match: '^(.*)\\.gate_up_proj\\.weight$'
  split: 2                                     # or a list of sizes: [64, 16, 16]
  into: ['$1.gate.weight', '$1.up.weight']""",
    "concat": """\
- match: ['^(.*)\\.q\\.weight$', '^(.*)\\.k\\.weight$', '^(.*)\\.v\\.weight$']
  concat: 0
  into: '$1.qkv.weight'""",
    "stack": """\
- match: '^(.*)\\.experts\\.(\\d+)\\.w1\\.weight$'
  stack: $2                                    # in the order of the second capture
  into: '$1.w1'""",
    "unstack": """\
- match: '^(.*)\\.w1$'
  unstack: true
  into: '$1.experts.{i}.w1.weight'""",
    "slice": """\
- match: '^embed_positions\\.weight$'            # two rows of padding before the first position
  slice: {from: 2}""",
    "weight_norm": """\
- match: ['^(.*)\\.weight_g$', '^(.*)\\.weight_v$']
  weight_norm: {}
  into: '$1.weight'""",
    "spectral_norm": """\
- match: ['^(.*)\\.weight_orig$', '^(.*)\\.weight_u$', '^(.*)\\.weight_v$']
  spectral_norm: {}
  into: '$1.weight'""",
    "map": """\
- match: '(norm|_layernorm)\\.weight$'           # stored as weight - 1
  map: '1 + x'""",
}
"""One step of `tensors` for every operation."""


def reference_pages() -> dict[str, str]:
    """Return file name to text of every page, the index (README.md) among them."""
    sections = {one.name: _page(one.name, one.about, _section_parts(one)) for one in RECIPE.fields}
    steps = {form.kind: form for form in OPERATIONS}
    operations = {
        one.name: _page(f"tensors: {one.name}", one.about, _operation_parts(one, steps[one.name].extras))
        for one in STEP_FIELDS
        if one.name in steps
    }
    pages = {f"{name}.md": text for name, text in (*sections.items(), *operations.items())}
    return {"README.md": _index(sections, operations), **pages}


def field_table(fields: Sequence[Field[object]]) -> str:
    """Return a Markdown table of keys, what each takes and what it means."""
    rows = [f"| {_name(one)} | {_cell(one.shape.words())} | {_cell(one.about)} |" for one in fields]
    return "\n".join(["| key | takes | meaning |", "|---|---|---|", *rows, ""])


def _page(title: str, about: str, parts: Iterator[str]) -> str:
    return "\n\n".join([_MADE, f"# `{title}`", about, *parts]) + "\n"


def _section_parts(one: Field[object]) -> Iterator[str]:
    yield f"Takes {one.shape.words()}.{' Every recipe has it.' if one.required else ''}"
    yield _example(SECTION_EXAMPLES[one.name])
    if one.name in _BELOW:
        yield f"## Keys below it\n\n{field_table(_BELOW[one.name]).rstrip()}"
    yield "[All sections and operations](README.md) · [The recipe language](../recipes.md)"


def _operation_parts(one: Field[object], extras: Sequence[Field[object]]) -> Iterator[str]:
    yield f"Takes {one.shape.words()}. A step of [`tensors`](tensors.md) has exactly one operation."
    yield _example(f"tensors:\n{_indented(OPERATION_EXAMPLES[one.name])}")
    keys = [key for key in STEP_FIELDS if key.name in _COMMON_KEYS]
    yield f"## Further keys of the step\n\n{field_table([*keys, *extras]).rstrip()}"
    yield "[All sections and operations](README.md) · [The recipe language](../recipes.md)"


def _index(sections: Mapping[str, str], operations: Mapping[str, str]) -> str:
    order = "In the order in which they take effect: " + ", ".join(f"[`{name}`]({name}.md)" for name in sections)
    steps = "Operations of [`tensors`](tensors.md): " + ", ".join(f"[`{name}`]({name}.md)" for name in operations)
    return "\n\n".join([_MADE, "# Recipe reference", f"{order}.", f"{steps}."]) + "\n"


def _example(text: str) -> str:
    return f"```yaml\n{text}\n```"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _name(one: Field[object]) -> str:
    return f"`{one.name}` (required)" if one.required else f"`{one.name}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
