import pytest

from fibernb.core.clients import Client, said_bytes
from fibernb.core.messages import Display, Output, Progress
from fibernb.core.receipts import Receipts
from fibernb.core.settings import CoreSettings
from fibernb.core.states import ClientState, IllegalTransition
from fibernb.model import Bar, Result

SETTINGS = CoreSettings()


def client() -> Client:
    return Client(5, 60.0, None)


def output(sequence: int, text: str = "x") -> Output:
    return Output(task=7, rank=2, sequence=sequence, stream="stdout", text=text)


def test_results_travel_in_numbered_messages() -> None:
    anna = client()
    assert anna.pack(SETTINGS) == []
    anna.put(Result(1, b"a"))
    anna.put(Result(2, b"b"))
    (first,) = anna.pack(SETTINGS)
    assert (first.sequence, [result.id for result in first.results]) == (1, [1, 2])
    anna.put(Result(3, b"c"))
    (second,) = anna.pack(SETTINGS)
    assert second.sequence == 2
    assert [parcel.message for parcel in anna.unacknowledged] == [first, second]


def test_large_results_go_apart() -> None:
    anna = client()
    settings = CoreSettings(max_deliver_bytes=10)
    for id_, size in enumerate([4, 4, 4, 30, 1]):
        anna.put(Result(id_, b"x" * size))
    anna.put(Result(9, b"", more=(Result(10, b"x" * 10),)))
    receipts = Receipts(1)
    anna.put(Result(11, b"x"), receipts.add(1))
    messages = anna.pack(settings)
    assert [[result.id for result in message.results] for message in messages] == [[0, 1], [2], [3], [4], [9], [11]]
    assert [len(parcel.receipts) for parcel in anna.unacknowledged] == [0, 0, 0, 0, 0, 1]


def test_a_receipt_counts_once_a_message() -> None:
    anna = client()
    receipts = Receipts(1)
    one, two = receipts.add(1), receipts.add(2)
    for receipt in (one, one, None, two):
        anna.put(Result(1, b""), receipt)
    assert (one.holders, two.holders) == (1, 1)
    anna.pack(SETTINGS)
    assert anna.unacknowledged[0].receipts == [one, two]
    assert anna.receipts == []


def test_the_backlog_is_bounded_in_number() -> None:
    anna = client()
    settings = CoreSettings(max_backlog=2)
    for sequence in range(5):
        anna.keep_for_later(output(sequence), settings)
    notice, *rest = anna.take_backlog()
    assert isinstance(notice, Output)
    assert (notice.task, notice.rank, notice.sequence) == (7, 2, 2)
    assert notice.text.startswith("[3 messages of output were dropped")
    assert rest == [output(3), output(4)]
    assert anna.take_backlog() == []


def test_the_backlog_is_bounded_in_bytes() -> None:
    anna = client()
    settings = CoreSettings(max_backlog_bytes=1000)
    anna.keep_for_later(output(0, "x" * 600), settings)
    anna.keep_for_later(output(1, "x" * 600), settings)
    assert [said.sequence for said in anna.take_backlog()] == [0, 1]
    anna.keep_for_later(output(2, "x" * 600), settings)
    assert anna.take_backlog() == [output(2, "x" * 600)]


def test_sizes_of_what_tasks_say() -> None:
    assert said_bytes(output(0, "abc")) == 103
    assert said_bytes(Display(task=1, rank=0, sequence=0, kind="display", content=b"1234")) == 104
    assert said_bytes(Progress(task=1, rank=0, sequence=0, bars=[Bar(bar=1)])) == 200


def test_history_tells_the_last_states() -> None:
    anna = client()
    anna.move(ClientState.LEASED)
    anna.move(ClientState.ATTACHED)
    assert anna.history() == "ATTACHED -> LEASED -> ATTACHED"


def test_moves_go_through_the_table() -> None:
    with pytest.raises(IllegalTransition, match="client 5 cannot go from ATTACHED to ATTACHED"):
        client().move(ClientState.ATTACHED)
    assert client().attached


def test_what_was_fetched_goes_apart_from_answers() -> None:
    anna = client()
    anna.put(Result(1, b"answer"))
    anna.gifts.append(Result(2, b"fetched"))
    messages = anna.pack(CoreSettings())
    assert [[result.id for result in message.results] for message in messages] == [[1], [2]]
    assert [parcel.answers for parcel in anna.unacknowledged] == [True, False]
    anna.put(Result(3, b""))
    anna.gifts.append(Result(4, b""))
    assert [result.id for result in anna.on_the_way()] == [1, 2, 3, 4]
