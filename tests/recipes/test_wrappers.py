"""What training wrappers put into names does not reach a recipe, and a recipe is found all the same."""

from __future__ import annotations

import pytest

from importer.recipes.applying.wrappers import unwrapped


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        (["module.a.weight", "module.b.weight"], ["a.weight", "b.weight"]),
        (["module.module.a", "module.module.b"], ["a", "b"]),
        (["_orig_mod.module.a", "_orig_mod.module.b"], ["a", "b"]),
        (["module._orig_mod.a", "module._orig_mod.b"], ["a", "b"]),
        (
            ["_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.q.weight", "_fsdp_wrapped_module.norm.weight"],
            ["model.layers.0.q.weight", "norm.weight"],
        ),
        (["layers.0._checkpoint_wrapped_module.w", "norm.w"], ["layers.0.w", "norm.w"]),
        (
            ["h.0._fsdp_wrapped_module._checkpoint_wrapped_module.w", "h.1._orig_mod._fsdp_wrapped_module.w"],
            ["h.0.w", "h.1.w"],
        ),
        (["_forward_module.a", "_forward_module.b"], ["a", "b"]),
        (["_fpw_module.a", "_fpw_module.b"], ["a", "b"]),
        (["module.a", "b"], ["module.a", "b"]),
        (["a.module.w"], ["a.module.w"]),
        (["my_orig_mod.w", "x._fsdp_wrapped_module_.w"], ["my_orig_mod.w", "x._fsdp_wrapped_module_.w"]),
        (["module."], ["module."]),
        ([], []),
    ],
)
def test_wrappers_are_taken_out(names: list[str], plain: list[str]) -> None:
    assert unwrapped(names) == plain
