"""The sections of a recipe, declared once: the loader, the JSON Schema and the reference page all read this.

Not here: the forms inside sections (`importer.recipes.reading.section_schema`, `step_schema`, `template_schema`), and joining a recipe
with the ones it extends (`inheritance`).
"""

from __future__ import annotations

from importer.recipes.reading.accept_schema import ACCEPT_FORM
from importer.recipes.reading.schema import PATTERN, TEXT, Field, ListOf, RecordType, Ruled, TextType
from importer.recipes.reading.section_schema import (
    ALIAS_FORM,
    CONFIG_FORM,
    DTYPE_FORM,
    NAME_FORM,
    RENAME_FORM,
    RENUMBER_FORM,
    SETTINGS_FORM,
    STORED_AS_FORM,
    VERSION_FORM,
)
from importer.recipes.reading.step_schema import STEP
from importer.recipes.reading.template_schema import TARGET, TYPE_RULE
from importer.recipes.recipe import NamePattern, Prefix

__all__ = [
    "ABOUT",
    "ACCEPTS",
    "ALIAS",
    "CONFIG",
    "DROP",
    "DTYPE",
    "EXTENDS",
    "KEEP",
    "NAME",
    "RECIPE",
    "RENAME",
    "RENUMBER",
    "SETTINGS",
    "STORED_AS",
    "STRIP",
    "TARGET_SECTION",
    "TENSORS",
    "TYPES",
    "UNWRAP",
    "VARIANTS",
    "VERSION",
]

VERSION = Field("recipe", VERSION_FORM, "The version of the language: always 1.", required=True)
NAME = Field("name", NAME_FORM, "What `--recipe` takes.", required=True)
ABOUT = Field("about", TEXT, "One line for lists: which files, and which Burn module.")
EXTENDS = Field(
    "extends",
    TEXT,
    "A recipe this one builds on: the name of a built-in one, or a path that ends in .yaml, relative to this file. Rules "
    "of `drop`, `rename`, `tensors` and `types` here run before the parent's; `config`, `settings`, `alias` and `target` entries "
    "here replace the parent's of the same name; `unwrap`, `strip`, `keep`, `renumber`, `dtype` and `variants` replace the parent's as a "
    "whole. `name`, `about` and `accepts` are not inherited.",
)
ACCEPTS = Field(
    "accepts",
    ListOf(ACCEPT_FORM, plural="values and mappings"),
    "How to recognise a checkpoint for this recipe. A text is compared with `architectures`, `model_type`, `arch` and `_class_name` of "
    "config.json; a mapping gives conditions that must all hold. One entry is enough. Where config.json names a class, only entries "
    "for classes and for values of the config count, not those for names. An entry of `unless`, `requires` or `unlike` alone holds for all entries.",
)
CONFIG = Field(
    "config",
    CONFIG_FORM,
    "Short names for expressions over the fields of config.json (or params.json).",
)
SETTINGS = Field(
    "settings",
    SETTINGS_FORM,
    "What the Rust module must be told besides the weights (eps, activation, rotary theta, multipliers): expressions over the config. The "
    "report prints them with this config's values; one whose field is absent or null is left out.",
)
UNWRAP = Field(
    "unwrap",
    ListOf(Ruled("unwrap", TEXT, Prefix), or_one=True),
    "Keys of the file to enter, the first that exists; without it the usual ones are tried (`state_dict`, `model`, …).",
)
STRIP = Field(
    "strip",
    ListOf(Ruled("strip", TEXT, Prefix), or_one=True),
    "Prefixes that are removed when *every* name has them. Not given: `module.` where every name has it, and anywhere in a "
    "name what FSDP, torch.compile, activation checkpointing and Fabric add (`_fsdp_wrapped_module.`, `_orig_mod.`…).",
)
KEEP = Field(
    "keep",
    ListOf(Ruled("keep", PATTERN, NamePattern), or_one=True),
    "Patterns for source names; what none of them matches is left out.",
)
DROP = Field(
    "drop",
    ListOf(Ruled("drop", PATTERN, NamePattern), or_one=True),
    "Patterns for source names that are left out, with this rule as the reason in the report.",
)
RENAME = Field(
    "rename",
    ListOf(RENAME_FORM, plural="pairs ['pattern', 'replacement']"),
    "Rules in order, each on the result of the one before; every match in a name is replaced. What comes out is the target "
    "name, with PyTorch's leaf (`weight`, `bias`).",
)
RENUMBER = Field(
    "renumber",
    RENUMBER_FORM,
    "Numbers that are made 0, 1, 2… in order, as Burn's contiguous index mapping does: for the prefixes that one of the patterns matches "
    "whole (`^fc\\.` closes the holes of fc.0, fc.2, fc.5), or `true` for all.",
)
ALIAS = Field(
    "alias",
    ALIAS_FORM,
    "A target name that is taken from another one where the source lacks it (tied weights that the file leaves out); `{from: name, when: expression}` only where the expression is true.",
)
STORED_AS = Field(
    "stored_as",
    STORED_AS_FORM,
    "Patterns for module paths whose matrices the file stores as `[in, out]` (`Conv1D` of GPT-2, bare matrices of CLIP). "
    "From here on every matrix is `[out, in]`.",
)
TENSORS = Field(
    "tensors", ListOf(STEP, plural="steps"), "Steps on renamed tensors, in order. All see PyTorch's orientation."
)
TARGET_SECTION = Field(
    "target",
    TARGET,
    "The Burn module: paths with layers. Gives every expected name and shape, and the type that decides each layout.",
)
TYPES = Field(
    "types",
    ListOf(TYPE_RULE, plural="pairs ['path pattern', Layer]"),
    "Without a target: which layer the modules are whose path matches; the first match counts.",
)
DTYPE = Field("dtype", DTYPE_FORM, "Element types of the output; `keep` where not given.")
VARIANTS = Field(
    "variants",
    TextType("keep or skip", ("keep", "skip")),
    "Whether enum variants, written `<Basic>` in names, are segments of the output's names. Burnpack needs them.",
)

RECIPE = RecordType(
    "a recipe",
    (
        *(
            VERSION,
            NAME,
            ABOUT,
            EXTENDS,
            ACCEPTS,
            CONFIG,
            SETTINGS,
            UNWRAP,
            STRIP,
            KEEP,
            DROP,
            RENAME,
            RENUMBER,
            ALIAS,
            STORED_AS,
        ),
        *(TENSORS, TARGET_SECTION, TYPES, DTYPE, VARIANTS),
    ),
)
"""The whole file; the order is that of the pipeline."""
