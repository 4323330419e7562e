"""Much output, in a real kernel with a real cluster: bounded, honest, and not too often."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.notebook.kernel import Kernel, Reply, check_rate, output_of, running_kernel

SIZE = 4
MAX_LINES = 1000
MAX_BYTES = 1_000_000
LEFT_OUT = re.compile(r"… ([\d,]+) lines \([\d,]+ bytes\) left out; %fiber log has them …")
MANY = 256
LINES_OF_EACH = 800


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("floods")) as started:
        started.run(f"%fiber scale {SIZE}")
        started.run("%parallel 1")
        yield started


def by_rank(reply: Reply, prefix: str = "") -> dict[int, list[str]]:
    """What the cell shows, without the labels, by each rank that a label names."""
    shown: dict[int, list[str]] = {}
    for line in reply.stream().splitlines():
        found = re.fullmatch(rf"\[{prefix}([\d,-]+)\] ?(.*)", line)
        assert found is not None, line
        for rank in ranks_of(found[1]):
            shown.setdefault(rank, []).append(found[2])
    return shown


def ranks_of(text: str) -> list[int]:
    ends = [[int(end) for end in run.split("-")] for run in text.split(",")]
    return [rank for run in ends for rank in range(run[0], run[-1] + 1)]


def lines_told_of(shown: list[str]) -> int:
    """Lines that are there, and those that are said to be left out."""
    gaps = [LEFT_OUT.fullmatch(line) for line in shown]
    return sum(1 if gap is None else int(gap[1].replace(",", "")) for gap in gaps)


def size_of(messages: list[dict[str, Any]]) -> int:
    return sum(len(msgspec.json.encode(message["content"])) for message in messages)


def test_two_hundred_thousand_lines_of_256_engines(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.run(f"%fiber scale {MANY}")
        reply = kernel.run(f"%%parallel\nfor i in range({LINES_OF_EACH}): print('line', i, 'of rank', rank)")
        assert len(reply.stream().splitlines()) <= MAX_LINES
        shown = by_rank(reply)
        assert list(shown) == list(range(MANY))
        for rank, lines in shown.items():
            assert lines_told_of(lines) == LINES_OF_EACH
            assert (lines[0], lines[-1]) == (f"line 0 of rank {rank}", f"line {LINES_OF_EACH - 1} of rank {rank}")
            numbers = [int(line.split()[1]) for line in lines if not LEFT_OUT.fullmatch(line)]
            assert numbers == sorted(set(numbers))
        assert size_of(output_of(reply)) < 500_000
        check_rate(reply)
        logged = kernel.run(f"%fiber log -n {LINES_OF_EACH} 17").stream().splitlines()
        assert logged == [f"[17] line {number} of rank 17" for number in range(LINES_OF_EACH)]


def test_bytes_grow_with_what_is_kept_and_not_with_what_is_written(kernel: Kernel) -> None:
    def streamed(lines: int) -> int:
        reply = kernel.run(f"%%parallel\nfor i in range({lines}): print(f'{{rank}} {{i:<60}}')")
        return size_of([message for message in reply.messages if message["msg_type"] == "stream"])

    few, twice, many, very_many = streamed(50), streamed(100), streamed(2_000), streamed(20_000)
    assert twice == pytest.approx(2 * few, rel=0.05)
    assert many < MAX_LINES * 100
    assert very_many == pytest.approx(many, rel=0.05)


def test_bytes_are_bounded_where_lines_are_long(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfor i in range(300): print(rank, i, 'x' * 50_000)")
    assert 0.3 * MAX_BYTES < size_of(output_of(reply)) < 1.2 * MAX_BYTES
    assert all(lines_told_of(lines) == 300 for lines in by_rank(reply).values())


def test_cells_in_the_background_share_the_messages(kernel: Kernel) -> None:
    body = "import time, fibernb as fnb\nend = time.time() + 3\nfor i in fnb.progress(iter(int, 1)):\n    print(i)\n"
    body += "    time.sleep(0.005)\n    if time.time() > end: break"
    replies = [kernel.run(f"%%parallel -w {rank} -a handle{rank}\n{body}") for rank in range(SIZE)]
    kernel.run("_ = [handle.result() for handle in (handle0, handle1, handle2, handle3)]")
    for reply in replies:
        kernel.wait_until(reply, lambda so_far: so_far.of("update_display_data"))
    kernel.messages_for(replies[0], 0.5)
    shown = [
        message for reply in replies for message in reply.messages if message["msg_type"] in ("stream", "comm_msg")
    ]
    dates = [message["header"]["date"] for message in shown]
    assert len(shown) <= 10 * (max(dates) - min(dates)).total_seconds() + 8 * SIZE


def test_one_endless_line(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel -w 1\nfor i in range(30): print('x' * 1_000_000, end='')")
    (line,) = reply.stream().splitlines()
    assert "characters left out" in line
    assert len(line) < MAX_BYTES


def test_streams_in_turn_do_not_make_a_message_of_every_line(kernel: Kernel) -> None:
    body = "import sys\nfor i in range(20_000):\n    print(i)\n    print('to stderr', i, file=sys.stderr)"
    reply = kernel.run(f"%%parallel -w 0\n{body}")
    check_rate(reply, at_the_end=16)
    for name in ("stdout", "stderr"):
        lines = [line.split()[-1] for line in reply.stream(name).splitlines() if "left out" not in line]
        assert [int(line) for line in lines] == sorted(int(line) for line in lines)
        assert lines


def test_an_endless_flood_can_be_interrupted(kernel: Kernel) -> None:
    reply = kernel.start("%%parallel\ni = 0\nwhile True:\n    print(rank, i)\n    i += 1")
    kernel.wait_for_view(reply)
    for _ in range(5):
        kernel.messages_for(reply, 0.1)
    kernel.manager.interrupt_kernel()
    kernel.finish(reply)
    assert reply.error == "KeyboardInterrupt"
    assert len(reply.stream().splitlines()) <= MAX_LINES
    check_rate(reply)
    (closed,) = reply.of("update_display_data")
    assert "of 4 ranks" in closed["data"]["text/html"]
    for rank, lines in by_rank(reply).items():
        assert lines[0] == f"{rank} 0"
        assert int(lines[-2].split()[1]) + 2 == lines_told_of(lines)  # the last line may have been cut short
    assert kernel.run("%parallel rank").result == "[0] 0\n[1] 1\n[2] 2\n[3] 3"


def test_output_of_several_ranks_comes_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    body = f"import pathlib, time\nprint('before')\nprint('rank', rank)\npath = pathlib.Path({str(go_on)!r})\n"
    reply = kernel.start(f"%%parallel\n{body}while not path.exists(): time.sleep(0.01)\nprint('after')")
    kernel.wait_until(reply, lambda so_far: "rank 0" in so_far.stream())
    early = reply.stream()
    go_on.touch()
    kernel.finish(reply)
    assert early == "[0-3] before\n[0] rank 0\n"
    others = "".join(f"[{rank}] rank {rank}\n[{rank}] after\n" for rank in (1, 2, 3))
    assert reply.stream() == f"{early}[0] after\n{others}"


def test_many_displays_are_bounded(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfor i in range(300): display(f'{rank} {i}')")
    assert len(reply.of("display_data")) <= MAX_LINES // 4 + 1  # and the view
    assert "displays (" in reply.stream()


def test_updates_of_a_display_are_bounded_in_time(kernel: Kernel) -> None:
    body = "import time\nhandle = display('begin', display_id=True)\nend = time.time() + 2\ni = 0\n"
    body += "while time.time() < end:\n    i += 1\n    handle.update(i)\nhandle.update('end')"
    reply = kernel.run(f"%%parallel -w 0\n{body}")
    updates = [content["data"]["text/plain"] for content in reply.of("update_display_data")]
    assert "'end'" in updates[-2:]
    check_rate(reply)


def test_a_flood_of_tasks(kernel: Kernel) -> None:
    kernel.run("import fibernb as fnb\n@fnb.remote\ndef work(i):\n    for j in range(2_000): print(i, j)")
    reply = kernel.run("_ = fnb.get([work.remote(i) for i in range(20)])")
    lines = [line.partition("] ")[2] for line in reply.stream().splitlines()]
    assert len(lines) <= MAX_LINES + 1
    assert lines_told_of(lines) == 40_000
    check_rate(reply)
    shown = [tuple(map(int, line.split())) for line in lines if not LEFT_OUT.fullmatch(line)]
    for _, of_task in groupby(sorted(shown, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        numbers = [number for _, number in of_task]
        assert numbers == sorted(set(numbers))


def test_output_that_a_callback_holds_up_still_belongs_to_its_cell(kernel: Kernel) -> None:
    kernel.run("import fibernb as fnb, time\n@fnb.remote\ndef one(i): print('one', i)")
    slow = "first = one.remote(-1)\nfirst.add_done_callback(lambda ref: time.sleep(0.5))\n"
    reply = kernel.run(f"{slow}_ = fnb.get([one.remote(i) for i in range(2_000)])")
    lines = [line.partition("] ")[2] for line in reply.stream().splitlines()]
    assert lines_told_of(lines) == 2_001
    assert len(lines) == MAX_LINES + 1


def test_nothing_is_sent_when_nothing_runs(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfor i in range(5_000): print(i)")
    before = len(reply.messages)
    kernel.messages_for(reply, 1.5)
    assert len(reply.messages) == before


def test_a_log_is_followed_until_it_is_interrupted(kernel: Kernel, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    body = f"import pathlib, time\npath = pathlib.Path({str(go_on)!r})\nprint('begun')\n"
    kernel.run(f"%%parallel -w 2 -a h\n{body}while not path.exists(): time.sleep(0.01)\nprint('gone on')\n!echo native")
    reply = kernel.start("%fiber log -f -n 1 2")
    kernel.wait_until(reply, lambda so_far: "begun" in so_far.stream())
    go_on.touch()
    kernel.wait_until(reply, lambda so_far: "native" in so_far.stream())
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).status == "ok"
    assert "[2] gone on\n" in reply.stream()
    assert kernel.run("h.result()\n%fiber log 2 -n 1").stream()
