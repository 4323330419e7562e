"""Every message comes back as it was; everything else is a ProtocolError."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fibernb.core.messages import Cancel, ClientMessage, EngineMessage, Exit, Message, Submit, ToClient, ToEngine
from fibernb.errors import ProtocolError
from fibernb.model import Call, Result
from fibernb.wire import codec
from fibernb.wire.handshake import EngineHello, Hello, NodeMessage, Refused, ToNode, Welcome

READERS: dict[str, tuple[codec.Reader[Any], Any]] = {
    "hello": (codec.hello, Hello),
    "from_client": (codec.from_client, ClientMessage),
    "from_engine": (codec.from_engine, EngineMessage),
    "from_node": (codec.from_node, NodeMessage),
    "to_client": (codec.to_client, ToClient | Welcome | Refused),
    "to_engine": (codec.to_engine, ToEngine | Welcome | Refused),
    "to_node": (codec.to_node, ToNode),
}
TYPES: list[type[Message]] = sorted(
    {type_ for _, union in READERS.values() for type_ in typing.get_args(union)}, key=lambda type_: type_.__name__
)

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8)
binaries = st.binary(max_size=8)
ATOMS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: integers,
    float: st.floats(allow_nan=False),
    str: texts,
    bytes: binaries,
    type(None): st.none(),
}


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Values of a type that a field of a message may have."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin is typing.Annotated:
        _, limits = arguments
        return st.integers(limits.ge, 2**63 - 1 if limits.le is None else limits.le)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if arguments:
        return st.one_of(*map(values, arguments))
    if type_ in ATOMS:
        return ATOMS[type_]
    return structs(type_) if issubclass(type_, msgspec.Struct) else st.sampled_from(list(type_))


def structs(type_: type[msgspec.Struct], depth: int = 0) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(type_, include_extras=True)
    fields = {name: values(hints[name]) for name in type_.__struct_fields__ if (type_, name) != (Result, "more")}
    if type_ is Result:  # whose further values are results that have none
        more = st.just(()) if depth else st.lists(structs(Result, 1), max_size=3).map(tuple)
        fields = {name: fields.get(name, more) for name in type_.__struct_fields__}
    if type_ in (Call, Result):
        return st.tuples(*fields.values()).map(lambda arguments: type_(*arguments))
    return st.fixed_dictionaries(fields).map(lambda arguments: type_(**arguments))


messages = st.sampled_from(TYPES).flatmap(structs)


def read(name: str, data: bytes) -> Any:
    """The message, or None for a ProtocolError."""
    try:
        return READERS[name][0].decode(data)
    except ProtocolError:
        return None


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_every_message_comes_back_as_it_was(type_: type[Message]) -> None:
    @settings(max_examples=20, deadline=None)
    @given(structs(type_))
    def comes_back(message: Any) -> None:
        data = codec.encode(message)
        for name, (reader, union) in READERS.items():
            if type_ in typing.get_args(union):
                assert reader.decode(data) == message
                assert reader.decode(memoryview(data)) == message
            else:
                assert read(name, data) is None

    comes_back()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(READERS)), st.binary(max_size=200))
def test_bytes_are_a_message_or_a_protocol_error(name: str, data: bytes) -> None:
    message = read(name, data)
    assert message is None or type(message) in typing.get_args(READERS[name][1])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(READERS)), st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts | binaries,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=20,
))  # fmt: skip
def test_other_msgpack_is_a_protocol_error(name: str, content: object) -> None:
    message = read(name, msgspec.msgpack.encode(content))
    assert message is None or type(message) in typing.get_args(READERS[name][1])


@settings(max_examples=150, deadline=None)
@given(messages, st.data())
def test_a_damaged_message_is_another_one_or_a_protocol_error(message: Any, data: st.DataObject) -> None:
    encoded = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    for name in READERS:
        read(name, bytes(encoded))


@settings(max_examples=60, deadline=None)
@given(messages, st.data())
def test_part_of_a_message_or_more_than_one_is_a_protocol_error(message: Any, data: st.DataObject) -> None:
    encoded = codec.encode(message)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    for name in READERS:
        assert read(name, encoded[:cut]) is None
        assert read(name, encoded + b"\xc0") is None
        assert read(name, encoded + encoded) is None


def test_a_field_of_another_type_is_named() -> None:
    data = msgspec.msgpack.encode(["Cancel", ["one"], False, True])
    with pytest.raises(ProtocolError, match=r"Expected `int`, got `str`.*\$\[1\]\[0\]"):
        codec.from_client.decode(data)


def test_an_integer_that_is_too_large() -> None:
    with pytest.raises(ProtocolError):
        codec.from_client.decode(msgspec.msgpack.encode(["Cancel", [2**64 - 1, "x"], False, True]))


def test_deep_nesting_is_a_protocol_error() -> None:
    for depth in (1_000, 100_000):
        for name in READERS:
            assert read(name, b"\x91" * depth) is None
            assert read(name, b"\x92\xa6Submit" + b"\x91" * depth) is None
            assert read(name, b"\x92\xa6Cancel" + b"\x81\xa1x" * depth) is None


def test_lengths_that_lie_cost_no_memory() -> None:
    for claim in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"):
        for name in READERS:
            assert read(name, claim) is None
            assert read(name, b"\x94\xa6Cancel" + claim) is None
            assert read(name, b"\x93\xa6Submit\xc4\x01f" + claim) is None


def test_a_message_that_is_too_large_for_its_reader() -> None:
    small = codec.Reader[Any](ClientMessage, max_bytes=100)
    data = codec.encode(Cancel(tasks=list(range(200))))
    with pytest.raises(ProtocolError, match="over the limit of 100"):
        small.decode(data)
    assert codec.from_client.decode(data) == Cancel(tasks=list(range(200)))


def test_a_hello_is_small() -> None:
    with pytest.raises(ProtocolError, match="over the limit of 1,048,576"):
        codec.hello.decode(b"\0" * (codec.MAX_HELLO_BYTES + 1))


def test_a_message_that_nobody_would_take_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 1000)
    assert codec.encode(Exit())
    with pytest.raises(ProtocolError, match=r"a Submit message of 2,0\d\d bytes .*: send the data in smaller parts"):
        codec.encode(Submit(function=b"f", calls=[Call(1, b"x" * 2000)]))


def test_messages_of_different_directions_have_different_names() -> None:
    assert len({type_.__name__ for type_ in TYPES}) == len(TYPES)
    assert EngineHello in TYPES
