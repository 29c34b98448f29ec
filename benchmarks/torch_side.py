"""What a user would write instead with torch and safetensors; run by the interpreter that has them, imported by nobody.

python torch_side.py copy|transpose|widen|llama|weights|inspect SOURCE OUTPUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # noqa: TID251 - this script is the other side of the comparison
from safetensors.torch import save_file

State = dict[str, Any]


def load(source: Path) -> State:
    """Read a file, or the files of a folder, with the safe reader and mapped storages."""
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


def main(task: str, source: Path, output: Path) -> None:
    """Do one task."""
    state = load(source)
    tasks: dict[str, Callable[[], State]] = {
        "copy": lambda: state,
        "transpose": lambda: transposed(state),
        "widen": lambda: {name: value.float() for name, value in transposed(state).items()},
        "llama": lambda: llama(state, source),
        "weights": lambda: transposed(state["model"]),
    }
    if task == "inspect":
        print(len(state))
    else:
        save_file(tasks[task](), output)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
