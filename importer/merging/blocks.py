"""Names of a UNet's blocks in the words of its first authors, in those of diffusers: `input_blocks_4_1_` is `down_blocks_1_attentions_0_`.

Three steps to a level of the way down (two blocks, and going down), three blocks to a level of the way up. Source: diffusers
loaders/lora_conversion_utils.py and scripts/convert_original_stable_diffusion_to_diffusers.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["diffusers_spelling"]

_STEPS = 3
_INPUT = re.compile(r"input_blocks_(\d{1,2})_(\d)_(.+)")
_MIDDLE = re.compile(r"middle_block_(\d)_(.+)")
_OUTPUT = re.compile(r"output_blocks_(\d{1,2})_(\d)_(.+)")
_RESNET = (
    ("in_layers_0", "norm1"), ("in_layers_2", "conv1"), ("out_layers_0", "norm2"), ("out_layers_3", "conv2"),
    ("emb_layers_1", "time_emb_proj"), ("skip_connection", "conv_shortcut"),
)  # fmt: skip
_OTHERS = {
    "input_blocks_0_0": "conv_in", "out_2": "conv_out", "time_embed_0": "time_embedding_linear_1",
    "time_embed_2": "time_embedding_linear_2", "label_emb_0_0": "add_embedding_linear_1", "label_emb_0_2": "add_embedding_linear_2",
}  # fmt: skip


def diffusers_spelling(module: str) -> Iterator[str]:
    """Yield what a module is called in diffusers, underscores for dots, if it is one of a UNet's first authors."""
    if module in _OTHERS:
        yield _OTHERS[module]
    elif (found := _INPUT.fullmatch(module)) is not None:
        level, step = divmod(int(found[1]) - 1, _STEPS)
        if step == _STEPS - 1:
            yield f"down_blocks_{level}_downsamplers_0_conv"
        else:
            yield f"down_blocks_{level}_{_inside(found[2], step, found[3])}"
    elif (found := _MIDDLE.fullmatch(module)) is not None:
        place = int(found[1])
        yield (
            f"mid_block_attentions_0_{found[2]}"
            if place == 1
            else f"mid_block_resnets_{place // 2}_{_of_resnet(found[2])}"
        )
    elif (found := _OUTPUT.fullmatch(module)) is not None:
        level, step = divmod(int(found[1]), _STEPS)
        if found[3].startswith("conv") and found[2] != "0":
            yield f"up_blocks_{level}_upsamplers_0_conv"
        yield f"up_blocks_{level}_{_inside(found[2], step, found[3])}"


def _inside(kind: str, step: int, rest: str) -> str:
    return f"resnets_{step}_{_of_resnet(rest)}" if kind == "0" else f"attentions_{step}_{rest}"


def _of_resnet(rest: str) -> str:
    return next((new for old, new in _RESNET if rest == old), rest)
