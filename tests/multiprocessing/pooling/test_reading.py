from __future__ import annotations

import threading
from collections.abc import Iterator

from fibernb.multiprocessing.pooling.jobs import Fed
from fibernb.multiprocessing.pooling.reading import Reader, Window, Windowed, chunks


def test_a_window_moves_with_its_consumer() -> None:
    window = Window(8)
    assert window.end() == 8
    assert [window.consume() for _ in range(4)] == [False, True, False, True]
    assert window.end() == 12


def test_listed_items_are_sent_within_the_window() -> None:
    window = Window(8)
    items = Windowed(range(10), window)
    assert items.reach() == 8
    window.lift()
    assert items.reach() == 10


def read(source: Iterator[int], window: Window) -> tuple[Fed, list[tuple[int, str]], threading.Event]:
    items, ends, ended = Fed(), list[tuple[int, str]](), threading.Event()

    def end(count: int, error: Exception | None) -> None:
        ends.append((count, repr(error)))
        ended.set()

    Reader(source, items, window, lambda: None, end).start()
    return items, ends, ended


def test_no_more_is_read_than_the_window_lets() -> None:
    asked = []
    full = threading.Event()

    def source() -> Iterator[int]:
        for number in range(20):
            asked.append(number)
            if number == 7:
                full.set()
            yield number

    window = Window(8)
    items, ends, ended = read(source(), window)
    assert full.wait(10)
    assert len(asked) == 8
    window.lift()
    assert ended.wait(10)
    assert ends == [(20, "None")]
    assert items.reach() == 20


def test_an_error_of_the_source_comes_after_its_items() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    _, ends, ended = read(source(), Window(8))
    assert ended.wait(10)
    assert ends == [(1, "ValueError('no more')")]


def test_a_reader_ends_with_its_window() -> None:
    ended = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.set()

    window = Window(4)
    read(source(), window)
    window.finish()
    assert ended.wait(10)


def test_chunks_are_whole_but_for_the_last() -> None:
    assert list(chunks(range(5), 2)) == [(0, 1), (2, 3), (4,)]
    assert list(chunks([], 2)) == []
