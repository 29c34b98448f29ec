"""Spellings of one role are alike; words that only look alike are not the same."""

from __future__ import annotations

import pytest

from importer.suggest.likeness import are_foreign, has_rotary_role, likeness, says_the_same

SAME = [
    ("self_attn.q_proj", "attention.wq"),
    ("attention.self.query", "mha.query"),
    ("attn.to_k", "mha.key"),
    ("embeddings.LayerNorm", "embeddings.layer_norm"),
    ("model.embed_tokens", "tok_embeddings"),
    ("transformer.wpe", "position_embedding"),
    ("0.conv1", "blocks.0.conv1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_of_one_name_say_the_same(one: str, other: str) -> None:
    assert says_the_same(one, other)
    assert says_the_same(other, one)


DIFFERENT = [
    ("self_attn.q_proj", "attention.wk"),
    ("conv1", "conv2"),
    ("mlp.0", "other.0"),
    ("input_layernorm", "attention_norm"),
    ("token_type_embeddings", "tok_embeddings"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_only_looks_alike_does_not_say_the_same(one: str, other: str) -> None:
    assert not says_the_same(one, other)


@pytest.mark.parametrize(
    ("path", "near", "far"),
    [
        ("input_layernorm", "attention_norm", "ffn_norm"),
        ("post_attention_layernorm", "ffn_norm", "attention_norm"),
        ("mlp.gate_proj", "feed_forward.swiglu.linear_inner", "feed_forward.swiglu.linear_outer"),
        ("feed_forward.w3", "feed_forward.swiglu.linear_outer", "feed_forward.swiglu.linear_inner"),
        ("decoder.norm", "decoder.layer_norm", "encoder.layer_norm"),
        ("lm_head", "output", "norm"),
    ],
)
def test_the_usual_counterpart_is_more_alike(path: str, near: str, far: str) -> None:
    assert likeness(path, near) > likeness(path, far)


@pytest.mark.parametrize("path", ["attention.wq", "self_attn.k_proj", "attn.q_norm", "self_attn.k_layernorm"])
def test_queries_keys_and_their_norms_may_be_rotated(path: str) -> None:
    assert has_rotary_role(path)


@pytest.mark.parametrize("path", ["attention.wv", "mha.output", "attention_norm", "tok_embeddings"])
def test_nothing_else_may_be_rotated(path: str) -> None:
    assert not has_rotary_role(path)


def test_numbers_alone_are_no_reason_to_call_names_foreign() -> None:
    assert are_foreign("classifier.dense", "stem.conv")
    assert not are_foreign("0.1", "stem.conv")
