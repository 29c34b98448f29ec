"""What a user would write instead with torch and safetensors; run by the interpreter that has them, imported by nobody.

python torch_side.py copy|transpose|widen|llama|weights|fp8|nf4|inspect SOURCE OUTPUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # noqa: TID251 - this script is the other side of the comparison
from safetensors.torch import load_file, save_file

State = dict[str, Any]


def load(source: Path) -> State:
    """Read a file, or the files of a folder, with the safe reader and mapped storages."""
    if source.is_dir() and (source / "model.safetensors").exists():
        return dict(load_file(source / "model.safetensors"))
    files = sorted(source.glob("*.bin")) if source.is_dir() else [source]
    state: State = {}
    for file in files:
        state |= torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    return state


def transposed(state: State) -> State:
    """Transpose every matrix."""
    return {name: value.t().contiguous() if value.dim() == 2 else value for name, value in state.items()}


def llama(state: State, source: Path) -> State:
    """Put rotary halves in pairs, and transpose what is a Linear."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    made = {}
    for name, value in state.items():
        for part, count in heads.items():
            if part in name:
                value = value.view(count, 2, -1, value.shape[1]).transpose(1, 2).reshape(value.shape)  # noqa: PLW2901
        made[name] = value.t().contiguous() if value.dim() == 2 and "embed" not in name else value.contiguous()
    return made


def fp8(state: State) -> State:
    """Multiply 8-bit floats with the scale of their block."""
    made = {}
    for name, value in state.items():
        if value.dtype is torch.float8_e4m3fn:
            scale = state[f"{name}_scale_inv"].repeat_interleave(128, 0).repeat_interleave(128, 1)
            made[name] = (value.float() * scale[: value.shape[0], : value.shape[1]]).bfloat16()
    return made


def nf4(state: State) -> State:
    """Look 4-bit levels up, and multiply them with the largest value of their block."""
    made = {}
    for name, value in state.items():
        if name.endswith(".weight"):
            state_name = f"{name}.quant_state.bitsandbytes__nf4"
            settings = json.loads(bytes(state[state_name].tolist()))
            codes = torch.stack([value.flatten() >> 4, value.flatten() & 15], 1).flatten()
            levels = state[f"{name}.quant_map"][codes.int()]
            largest = state[f"{name}.absmax"].repeat_interleave(settings["blocksize"])[: levels.numel()]
            made[name] = (levels * largest).bfloat16().view(settings["shape"])
    return made


def main(task: str, source: Path, output: Path) -> None:
    """Do one task."""
    state = load(source)
    tasks: dict[str, Callable[[], State]] = {
        "copy": lambda: state,
        "transpose": lambda: transposed(state),
        "widen": lambda: {name: value.float() for name, value in transposed(state).items()},
        "llama": lambda: llama(state, source),
        "fp8": lambda: fp8(state),
        "fp8-transposed": lambda: transposed(fp8(state)),
        "nf4": lambda: nf4(state),
        "nf4-transposed": lambda: transposed(nf4(state)),
        "weights": lambda: transposed(state["model"]),
    }
    if task == "inspect":
        print(len(state))
    else:
        save_file(tasks[task](), output)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
