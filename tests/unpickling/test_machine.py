"""The machine: values of every opcode, where pickles end, what is recorded, and every bound."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.budgets import Budget
from importer.errors import LimitError, Location, MalformedPickleError, SourceError, TruncatedError, UnsupportedError
from importer.limits import DEFAULT_LIMITS
from importer.unpickling import Call, Global, PersistentId, Unpickled, collection_paused, plain, unpickle
from tests.builders.pickles import call, dump, encode, tensor

WHERE = Location(path="model.pt", record="data.pkl", offset=100)


def read(data: bytes | memoryview, start: int = 0) -> Unpickled:
    return unpickle(data, where=WHERE, start=start)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"N.", None),
        (b"\x88.", True),
        (b"\x89.", False),
        (b"I01\n.", True),
        (b"I00\n.", False),
        (b"I-7\n.", -7),
        (b"L12345678901234567890L\n.", 12345678901234567890),
        (b"L5\n.", 5),
        (b"F-1.5\n.", -1.5),
        (b"J\xfe\xff\xff\xff.", -2),
        (b"K\xff.", 255),
        (b"M\xff\xff.", 65535),
        (b"\x8a\x00.", 0),
        (b"\x8a\x01\xff.", -1),
        (b"\x8b\x02\x00\x00\x00\x00\x01.", 256),
        (b"G\xbf\xf8\0\0\0\0\0\0.", -1.5),
        (b"S'a\\n\\x41\\101\\'\\\\\\q'\n.", "a\nAA'\\q"),
        (b'S"tab\\t"\n.', "tab\t"),
        (b"S'\\xff'\n.", b"\xff"),
        (b"T\x02\0\0\0\xc3\xa9.", "é"),
        (b"U\x01\xe9.", b"\xe9"),
        (b"V\\u00e9\\u4e2d\n.", "é中"),
        (b"V\\ud800\n.", "\\ud800"),
        (b"X\x02\0\0\0\xc3\xa9.", "é"),
        (b"X\x03\0\0\0\xed\xa0\x80.", "\\xed\\xa0\\x80"),
        (b"\x8c\x01a.", "a"),
        (b"\x8d\x01\0\0\0\0\0\0\0a.", "a"),
        (b"B\x01\0\0\0\xff.", b"\xff"),
        (b"C\x01\xff.", b"\xff"),
        (b"\x8e\x01\0\0\0\0\0\0\0\xff.", b"\xff"),
        (b"\x96\x01\0\0\0\0\0\0\0\xff.", bytearray(b"\xff")),
        (b").", ()),
        (b"N\x85.", (None,)),
        (b"K\x01K\x02\x86.", (1, 2)),
        (b"K\x01K\x02K\x03\x87.", (1, 2, 3)),
        (b"(K\x01K\x02t.", (1, 2)),
        (b"].", []),
        (b"(K\x01l.", [1]),
        (b"]K\x01a.", [1]),
        (b"](K\x01K\x02e.", [1, 2]),
        (b"}.", {}),
        (b"(X\x01\0\0\0aK\x01d.", {"a": 1}),
        (b"}X\x01\0\0\0aK\x01s.", {"a": 1}),
        (b"}(X\x01\0\0\0aK\x01K\x02Nu.", {"a": 1, 2: None}),
        (b"\x8f(K\x01\x90.", {1}),
        (b"(K\x01\x91.", frozenset({1})),
        (b"K\x01K\x020.", 1),
        (b"K\x01(0.", 1),
        (b"K\x01(K\x02K\x031.", 1),
        (b"K\x012\x86.", (1, 1)),
        (b"K\x07q\x05K\x08h\x05\x86.", (8, 7)),
        (b"K\x07r\x05\x01\0\0K\x08j\x05\x01\0\0\x86.", (8, 7)),
        (b"K\x07p5\nK\x08g5\n\x86.", (8, 7)),
        (b"K\x07\x94K\x08h\x00\x86.", (8, 7)),
        (b"\x80\x04\x95\x02\0\0\0\0\0\0\0N..", None),
        (b"cos\nsystem\n.", Global("os", "system")),
        (b"X\x02\0\0\0osX\x06\0\0\0system\x93.", Global("os", "system")),
    ],
    ids=lambda item: repr(item)[:40],
)
def test_an_opcode_gives_its_value(data: bytes, value: object) -> None:
    found = read(data).value
    assert found == value
    assert type(found) is type(value)


def shape(value: object) -> object:
    """Return a value with its calls spelled out, since calls compare by identity."""
    match value:
        case Call():
            parts = (value.callable, value.args, value.kwargs, value.elements, value.entries, value.state)
            return ("call", *map(shape, parts))
        case PersistentId():
            return ("pid", shape(value.value))
        case list() | tuple():
            return [type(value).__name__, *map(shape, value)]
        case dict():
            return {plain(key): shape(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"cm\nF\nK\x01\x85R.", call("m.F", 1)),
        (b"cm\nF\nK\x01\x85\x81.", call("m.F", 1)),
        (b"cm\nF\nK\x01\x85}X\x01\0\0\0kN\x73\x92.", call("m.F", 1, kwargs={"k": None})),
        (b"(cm\nF\nK\x01o.", call("m.F", 1)),
        (b"(K\x01im\nF\n.", call("m.F", 1)),
        (b"cm\nF\n)R}b.", call("m.F", state={})),
        (b"cm\nF\n)RK\x01a(K\x02K\x03e.", call("m.F", elements=[1, 2, 3])),
        (b"cm\nF\n)RK\x01K\x02s(K\x03K\x04u.", call("m.F", entries={1: 2, 3: 4})),
        (b"cm\nF\n)R)R.", call(call("m.F"))),
        (b"Pkey\n.", PersistentId("key")),
        (b"K\x01Q.", PersistentId(1)),
    ],
    ids=lambda item: repr(item)[:30],
)
def test_what_would_be_run_becomes_a_node(data: bytes, expected: object) -> None:
    assert shape(read(data).value) == shape(expected)


def test_nodes_print_what_they_stand_for() -> None:
    assert repr(call("m.F")) == "<Call of m.F>"
    assert repr(call(call("m.F"))) == "<Call of Call>"
    assert repr(PersistentId(("storage",))) == "<PersistentId of a tuple>"


@given(st.lists(st.sampled_from([0, 1, 2, 3, 255, 256, 1 << 31, None]), max_size=8))
def test_the_memo_takes_indices_in_any_order(indices: list[int | None]) -> None:
    memo: dict[int, int] = {}
    data = b""
    for value, index in enumerate(indices):
        memo[len(memo) if index is None else index] = value
        put = b"\x94" if index is None else b"r" + index.to_bytes(4, "little")
        data += b"K" + bytes([value]) + put + b"0"
    data += b"(" + b"".join(b"j" + index.to_bytes(4, "little") for index in memo) + b"t."
    assert read(data).value == tuple(memo.values())


def outcome(data: bytes) -> object:
    """Return all a pickle gives, or what is wrong with it."""
    try:
        found = read(data)
    except MalformedPickleError as error:
        return error.what
    return shape(found.value), found.globals, shape(list(found.called))


HOOKS_ENDING = b"h\x00)Rr\x00\x01\0\0tr\x01\x01\0\0Rr\x02\x01\0\0"


@pytest.mark.parametrize(
    ("before", "ending"),
    [
        pytest.param(b"cm\nF\n(K\x05", HOOKS_ENDING, id="a tensor"),
        pytest.param(b"cm\nF\n(K\x05", HOOKS_ENDING.replace(b"h\x00", b"h\x01"), id="hooks that are no class"),
        pytest.param(b"cm\nF\n)R(K\x05", HOOKS_ENDING, id="a function that is the result of a call"),
        pytest.param(b"cm\nF\n(K\x05", HOOKS_ENDING.replace(b"\x01\x01", b"\x07\x01"), id="another memo index"),
        pytest.param(b"cm\nF\n(K\x05", HOOKS_ENDING.replace(b"h\x00", b"j\0\0\0\0"), id="a long index"),
        pytest.param(b"Nr\0\0\0\x01cm\nF\n(K\x05", HOOKS_ENDING, id="after an index out of turn"),
        pytest.param(b"(", HOOKS_ENDING, id="nothing to call"),
        pytest.param(b"", HOOKS_ENDING, id="no mark"),
    ],
)
def test_the_end_of_a_tensor_is_read_at_once_as_it_is_opcode_by_opcode(before: bytes, ending: bytes) -> None:
    memo = b"ccollections\nOrderedDict\n\x94" + b"N\x94" * 255
    after = ending + b"j\x00\x01\0\0j\x01\x01\0\0j\x02\x01\0\0\x87."
    # Only NEWFALSE begins what is read at once; INT makes False too.
    assert outcome(memo + before + b"\x89" + after) == outcome(memo + before + b"I00\n" + after)


def test_a_memo_entry_is_the_object_itself_so_that_cycles_are_cycles() -> None:
    value = read(b"]q\x00h\x00a.").value
    assert isinstance(value, list)
    assert value[0] is value


def test_an_object_filled_after_it_was_stored_is_filled_everywhere() -> None:
    value = read(b"cm\nF\n)Rq\x00h\x00}b\x86.".replace(b"h\x00}b\x86", b"h\x00\x86q\x010h\x00}b0h\x01")).value
    assert isinstance(value, tuple)
    assert value[0] is value[1]
    assert value[0].state == {}


def test_a_pickle_ends_at_its_stop_and_says_where() -> None:
    first = read(b"K\x01.K\x02.rest")
    second = read(b"K\x01.K\x02.rest", start=first.end)
    assert (first.value, first.end, second.value, second.end) == (1, 3, 2, 6)


def test_a_memory_view_is_read_in_place() -> None:
    data = dump({"weight": tensor(), "name": "a", "raw": b"b"})
    assert shape(read(memoryview(data)).value) == shape(read(data).value)


def test_globals_and_calls_are_recorded_also_where_nothing_keeps_them() -> None:
    found = read(b"cos\nsystem\nX\x02\0\0\0ls\x85R0cm\nF\n0N.")
    assert found.value is None
    assert found.globals == (Global("os", "system"), Global("m", "F"))
    assert found.called == (Global("os", "system"),)


def test_a_global_named_twice_is_one_node() -> None:
    value = read(b"cm\nF\ncm\nF\n\x86.").value
    assert isinstance(value, tuple)
    assert value[0] is value[1]


def test_persistent_ids_are_recorded_in_order() -> None:
    found = read(b"K\x01QP2\n\x86.")
    assert [pid.value for pid in found.persistent_ids] == [1, "2"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.builds(Global, st.just("m"), st.text("abc", min_size=1)),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text("abc") | st.integers(-(1 << 63), (1 << 63) - 1), inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert shape(read(dump(value)).value) == shape(value)


@given(st.binary(max_size=40))
def test_any_bytes_give_a_value_or_an_error_of_ours(data: bytes) -> None:
    try:
        read(data)
    except SourceError as error:
        assert str(WHERE.path) in str(error)  # noqa: PT017 - either outcome is right


def test_cut_off_anywhere_it_is_truncated() -> None:
    data = dump({"weight": tensor(), "a": [1, 2.5, 1 << 70, b"x"], "b": Global("m", "F"), "c": {3}})
    for length in range(len(data)):
        with pytest.raises(TruncatedError, match="cut off"):
            read(data[:length])


@pytest.mark.parametrize(
    ("data", "name", "what", "offset"),
    [
        (b"N\xff.", "0xff", "no such opcode", 1),
        (b"N\x86.", "TUPLE2", "stack is empty", 1),
        (b".", "STOP", "stack is empty", 0),
        (b"NNt.", "TUPLE", "stack is empty", 2),
        (b"h\x00.", "BINGET", "nothing is in the memo at 0", 0),
        (b"j\x01\0\0\0.", "LONG_BINGET", "nothing is in the memo at 1", 0),
        (b"g7\n.", "GET", "nothing is in the memo at b'7'", 0),
        (b"q\x00.", "BINPUT", "stack is empty", 0),
        (b"Np-1\n.", "PUT", "no memo index", 1),
        (b"Ix\n.", "INT", "no integer", 0),
        (b"Fx\n.", "FLOAT", "no number", 0),
        (b"Sx\n.", "STRING", "no quotes", 0),
        (b"S'\n.", "STRING", "no quotes", 0),
        (b"V\\u12\n.", "UNICODE", "text is damaged", 0),
        (b"K\x01X\x01\0\0\0a\x93.", "STACK_GLOBAL", "module and name are a int and a str", 8),
        (b"N)R.", "REDUCE", "a NoneType cannot be called", 2),
        (b"cm\nF\nNR.", "REDUCE", "are a NoneType, not a tuple", 6),
        (b"N)\x81.", "NEWOBJ", "cannot be called", 2),
        (b"(o.", "OBJ", "cannot be called", 1),
        (b"cm\nF\n)N\x92.", "NEWOBJ_EX", "keyword arguments are a NoneType", 7),
        (b"K\x01Na.", "APPEND", "a int cannot be filled", 3),
        (b"](K\x01K\x01u.", "SETITEMS", "a list cannot be filled", 6),
        (b"}(K\x01u.", "SETITEMS", "a key has no value", 4),
        (b"cm\nF\nK\x01K\x01s.", "SETITEM", "a class or function 'm.F' cannot be filled", 9),
        (b"K\x01Q(NNu.", "SETITEMS", "a storage cannot be filled", 6),
        (b"](K\x01\x90.", "ADDITEMS", "a list is no set", 4),
        (b"}}b.", "BUILD", "a dict takes no state", 2),
        (b"cm\nF\n)Rcm\nF\nb.", "BUILD", "the class or function 'm.F' is no state", 12),
        (b"cm\nF\n)R}b}b.", "BUILD", "has its state already", 10),
    ],
    ids=lambda item: repr(item)[:30],
)
def test_an_opcode_on_the_wrong_kind_of_value_is_malformed(data: bytes, name: str, what: str, offset: int) -> None:
    with pytest.raises(MalformedPickleError, match=what) as caught:
        read(data)
    assert f"pickle opcode {name}:" in caught.value.what
    assert caught.value.where == replace(WHERE, offset=100 + offset)


def test_a_tensor_cannot_be_filled() -> None:
    with pytest.raises(MalformedPickleError, match=r"a call of 'torch\._utils\._rebuild_tensor_v2' cannot be filled"):
        read(encode(tensor()) + b"(NNu.")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x80\x06N.", "protocol 6"),
        (b"\x82\x01.", "extension code 1"),
        (b"\x83\x01\x00.", "extension code 1"),
        (b"\x84\x01\0\0\0.", "extension code 1"),
        (b"\x97.", "buffer outside itself"),
        (b"N\x98.", "buffer outside itself"),
    ],
)
def test_what_only_another_program_could_know_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        read(data)


@pytest.mark.parametrize(
    "key",
    [[], {}, {1}, ([],), bytearray(b"a"), tuple(range(65))],
    ids=lambda key: repr(key)[:30],
)
def test_what_is_costly_or_impossible_to_hash_is_no_key(key: object) -> None:
    with pytest.raises(MalformedPickleError, match="cannot be a key"):
        read(b"}" + encode(key) + b"Ns.")


@pytest.mark.parametrize(
    "key",
    [
        *("a", b"a", 1, 65_535, 65_536, -1, (1 << 63) - 1, -(1 << 63), 1 << 2000, 1.5, 1e300, math.inf, None, True),
        *((1, "a", (2,)), ("a", "b"), (1 << 70, b"a", None), frozenset({1}), frozenset({1 << 60}), Global("m", "F")),
    ],
    ids=lambda key: repr(key)[:30],
)
def test_plain_values_and_classes_are_keys(key: object) -> None:
    assert [(plain(k), v) for k, v in made_of(read(dump({key: 1})).value)] == [(key, 1)]


def made_of(value: object) -> list[tuple[object, object]]:
    """Return the entries of a dictionary; elements of sets in keys as they were pickled."""
    assert isinstance(value, dict)
    return [(frozenset(map(plain, key)) if isinstance(key, frozenset) else key, item) for key, item in value.items()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(1 << 40, float(1 << 40), id="whole-float"),
        pytest.param(-1, -1.0, id="negative"),
        pytest.param(1, True, id="bool"),
        pytest.param((1 << 40, "a"), (float(1 << 40), "a"), id="in-a-tuple"),
        pytest.param((1, (True, 0)), (1.0, (1, False)), id="in-tuples"),
    ],
)
def test_keys_that_are_equal_in_python_are_one_key(first: object, second: object) -> None:
    pickle = b"}" + encode(first) + b"K\x01s" + encode(second) + b"K\x02s."
    assert [value for _, value in made_of(read(pickle).value)] == [2]


def test_numbers_that_python_lets_collide_do_not_collide() -> None:
    modulus = (1 << 61) - 1  # of Python's hashes of numbers
    assert len({hash(number * modulus + 7) for number in range(1, 50)}) == 1
    keys = list(read(dump({number * modulus + 7: None for number in range(1, 50)})).value)  # type: ignore[call-overload]
    assert len(set(map(hash, keys))) == len(keys)


@pytest.mark.parametrize(
    ("pickle", "entries"),
    [
        pytest.param(
            b"ccollections\nOrderedDict\n](](X\x01\0\0\0aK\x01e](X\x01\0\0\0aK\x02ee\x85R.", {"a": 2}, id="twice"
        ),
        pytest.param(
            b"ccollections\nOrderedDict\n](](X\x01\0\0\0aK\x01e](X\x01\0\0\0bK\x02ee\x85RX\x01\0\0\0aK\x03s.",
            {"a": 3, "b": 2},
            id="set-again",
        ),
        pytest.param(
            b"cbuiltins\ndict\n}X\x01\0\0\0aK\x01sq\0\x85Rh\0X\x01\0\0\0bK\x02s0.", {"a": 1}, id="changed-later"
        ),
        pytest.param(b"ccollections\ndefaultdict\nN}X\x01\0\0\0aK\x01s\x86R.", {"a": 1}, id="defaultdict"),
        pytest.param(b"cbuiltins\ndict\n]X\x02\0\0\0aba\x85R.", {"a": "b"}, id="a-text-is-a-pair"),
    ],
)
def test_a_mapping_made_of_entries_has_those_python_would_give_it(pickle: bytes, entries: dict[str, object]) -> None:
    found = read(pickle).value
    assert isinstance(found, Call)
    assert found.entries == entries


def test_a_sequence_is_made_of_what_its_argument_held_then() -> None:
    found = read(b"cbuiltins\nlist\n](K\x01K\x02eq\0\x85Rh\0K\x03a0.").value
    assert isinstance(found, Call)
    assert found.args == ((1, 2),)


def test_sizes_of_the_first_releases_are_those_the_lists_had_when_the_tensor_was_made() -> None:
    found = read(b"ctorch._utils\n_rebuild_tensor\n(NK\0]K\x02aq\0]K\x01atRh\0K\x03a0.").value
    assert isinstance(found, Call)
    assert found.args == (None, 0, (2,), (1,))


def test_what_is_no_pair_makes_no_mapping() -> None:
    with pytest.raises(MalformedPickleError, match="no pair"):
        read(b"ccollections\nOrderedDict\n](K\x01K\x02e\x85R.")


def test_bytes_that_would_be_unpickled_in_turn_are_listed() -> None:
    assert read(b"ctorch.storage\n_load_from_bytes\nC\x02N.\x85R.").nested == (b"N.",)


def test_the_pickle_pays_for_what_it_makes_of_few_bytes() -> None:
    budget = Budget(replace(DEFAULT_LIMITS, free_cost=100_000, max_cost_per_byte=0))
    with pytest.raises(LimitError, match="max_cost_per_byte"):
        unpickle(b"\x8f" * 1_000 + b".", where=WHERE, budget=budget)
    with pytest.raises(LimitError, match="max_cost_per_byte"):
        unpickle(b"N" * 100_000 + b".", where=WHERE, budget=budget)


def test_a_tuple_doubled_again_and_again_is_no_key() -> None:
    doubling = b"N" + b"2\x86" * 60
    with pytest.raises(MalformedPickleError, match="cannot be a key"):
        read(b"}" + doubling + b"Ns.")


@pytest.mark.parametrize(
    ("limit", "value", "data"),
    [
        ("max_opcodes", 3, b"N0N0N."),
        ("max_pickle_bytes", 4, b"N0N0N."),
        ("max_pickle_bytes", 4, b"X\x09\0\0\0123456789."),
        ("max_integer_bytes", 8, b"\x8a\x09123456789."),
        ("max_integer_bytes", 2, b"L123456789L\n."),
    ],
)
def test_a_bound_is_held(limit: str, value: int, data: bytes) -> None:
    with pytest.raises(LimitError) as caught:
        unpickle(data, where=WHERE, limits=replace(DEFAULT_LIMITS, **{limit: value}))
    assert caught.value.limit == limit
    assert caught.value.allowed == value


def test_what_follows_a_pickle_does_not_count_against_its_size() -> None:
    limits = replace(DEFAULT_LIMITS, max_pickle_bytes=4)
    assert unpickle(b"N." + bytes(100), where=WHERE, limits=limits).value is None


def test_nesting_deeper_than_any_stack_is_read_and_freed_without_recursion() -> None:
    value = read(b"]" * 100_000 + b"a" * 99_999 + b".").value
    depth = 0
    while value:
        assert isinstance(value, list)
        value = value[0]
        depth += 1
    assert depth == 99_999


def test_special_floats_survive() -> None:
    found = read(dump([math.inf, -0.0, math.nan])).value
    assert isinstance(found, list)
    assert found[0] == math.inf
    assert math.copysign(1, found[1]) == -1
    assert math.isnan(found[2])


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_is_left_as_it_was(running: bool) -> None:
    before = gc.isenabled()
    (gc.enable if running else gc.disable)()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()


def test_objects_the_program_has_frozen_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collection_paused():
            pass
        assert gc.get_freeze_count() >= frozen > 0
    finally:
        gc.unfreeze()
