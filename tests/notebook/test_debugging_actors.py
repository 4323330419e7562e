"""``%fiber debug`` for errors of actors: in the process of the actor, over a kernel's own input prompt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.dialogue import begin, talk
from tests.notebook.kernel import Kernel, running_kernel

ACTORS = """
import asyncio, os, threading, time, fibernb as fnb

class Account:
    def __init__(self, owner, limit=100):
        if limit < 0:
            raise ValueError(f"a limit of {limit}")
        self.owner, self.total = owner, 0

    def pay(self, amount):
        before = self.total
        self.total += amount
        if self.total > 100:
            raise OverflowError(f"{self.owner} has {self.total}")
        return self.total

    def read(self):
        return self.total

    def wait_for(self, path):
        while not os.path.exists(path):
            time.sleep(0.01)

class Later(Account):
    async def pay_later(self, amount):
        await asyncio.sleep(0)
        later = amount * 2
        return self.pay(later)

Account, Later = fnb.remote(num_cpus=0)(Account), fnb.remote(num_cpus=0)(Later)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("debug"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 2")
        started.run(ACTORS)
        yield started


@pytest.fixture
def fresh(kernel: Kernel) -> Iterator[Kernel]:
    """The same, with ranks that know of no error; afterwards without actors."""
    kernel.run("%fiber restart")
    yield kernel
    kernel.run(
        "anna = bert = each = ref = None\n"
        "while any(row.state != 'DEAD' for row in fnb.util.state.list_actors()): time.sleep(0.02)"
    )


def test_an_error_of_a_method(fresh: Kernel) -> None:
    fresh.run("anna = Account.remote('Anna')")
    assert fresh.fail("fnb.get(anna.pay.remote(500))").error == "OverflowError"
    dialogue = begin(fresh, "%fiber debug")
    for line in ("p before, amount", "p self.owner", "up", "self.total = 7", "q"):
        dialogue.answer(line)
    shown = dialogue.finish().stream()
    assert shown.startswith("Account (extra ")
    assert "OverflowError: Anna has 500 (In[" in shown
    assert '-> raise OverflowError(f"{self.owner} has {self.total}")' in shown
    assert "\n(0, 500)\n'Anna'\n*** Oldest frame\n" in shown
    assert dialogue.prompts == ["[Account] (Pdb) "] * 5
    assert fresh.run("fnb.get(anna.read.remote())").result == "7", "the debugger is in the actor's own process"


@pytest.mark.parametrize("written", ["anna", "Account", "of Anna"])
def test_an_actor_is_called_by_its_variable_its_class_or_its_name(fresh: Kernel, written: str) -> None:
    fresh.run("anna = Account.options(name='of Anna').remote('Anna')\nbert = fnb.remote(num_cpus=0)(list).remote()")
    fresh.fail("fnb.get(anna.pay.remote(500))")
    assert "\n500\n" in talk(fresh, f"%fiber debug {written}", ["p amount", "q"]).stream()


def test_of_two_that_failed_alike_each_can_be_chosen(fresh: Kernel) -> None:
    fresh.run("anna, bert = Account.remote('Anna'), Account.remote('Anna')")
    fresh.fail("for each in anna, bert:\n    try: fnb.get(each.pay.remote(500))\n    except OverflowError: pass\nraise")
    first = talk(fresh, "%fiber debug Account", ["self.owner = 'seen'", "q"]).stream()
    _, _, other = first.partition("the same on Account (extra ")
    assert other
    rank = other.split(")")[0]
    assert f"%fiber debug extra {rank}\n" in first
    assert "'Anna'" in talk(fresh, f"%fiber debug extra {rank}", ["p self.owner", "q"]).stream()


def test_an_error_of_a_coroutine(fresh: Kernel) -> None:
    fresh.run("anna = Later.remote('Anna')")
    fresh.fail("fnb.get(anna.pay_later.remote(500))")
    shown = talk(fresh, "%fiber debug anna", ["p amount", "up", "p later, amount", "q"]).stream()
    assert "\n1000\n" in shown
    assert "-> return self.pay(later)\n(1000, 500)\n" in shown
    assert fresh.run("fnb.get(anna.read.remote())").result == "1000"


def test_an_error_in_one_of_several_threads(fresh: Kernel) -> None:
    fresh.run("anna = Account.options(max_concurrency=2).remote('Anna')")
    fresh.fail("fnb.get(anna.pay.remote(500))")
    lines = ["p amount", "import threading; p = threading.current_thread().name", "!p.startswith('fibernb-call')", "q"]
    assert "\n500\nTrue\n" in talk(fresh, "%fiber debug anna", lines).stream()


def test_an_actor_without_an_error(fresh: Kernel) -> None:
    fresh.run("anna = Account.remote('Anna')\nfnb.get(anna.read.remote())")
    assert "has no error to debug" in fresh.run("%fiber debug anna").stream()


def test_an_actor_whose_constructor_failed(fresh: Kernel) -> None:
    fresh.run("anna = Account.remote('Anna', -5)")
    assert fresh.fail("fnb.get(anna.read.remote())").error == "ActorDied"
    shown = fresh.run("%fiber debug").stream()
    assert "a limit of -5" in shown
    assert "with its process went what there was to debug" in shown
    refused = fresh.fail("%fiber debug anna").text
    assert refused.startswith("Account has ended (")
    assert "with its process went what there was to debug" in refused


def test_an_actor_that_was_killed(fresh: Kernel) -> None:
    fresh.run("anna = Account.remote('Anna')")
    fresh.fail("fnb.get(anna.pay.remote(500))")
    dialogue = begin(fresh, "%fiber debug anna")
    dialogue.answer("import os; os.kill(os.getpid(), 9)")
    shown = dialogue.finish().stream()
    assert "with the old one went what there was to debug" in shown
    assert "Account has ended (" in fresh.fail("%fiber debug anna").text


def test_a_busy_actor_is_waited_for(fresh: Kernel, tmp_path_factory: pytest.TempPathFactory) -> None:
    go_on = tmp_path_factory.mktemp("busy") / "go on"
    fresh.run("anna = Account.remote('Anna')")
    fresh.fail("fnb.get(anna.pay.remote(500))")
    fresh.run(f"ref = anna.wait_for.remote({str(go_on)!r})")
    assert "busy, so not asked for an error: Account (extra " in fresh.run("%fiber debug").stream()
    dialogue = begin(fresh, "%fiber debug anna")
    fresh.wait_until(dialogue.reply, lambda reply: "is busy: waiting" in reply.stream())
    go_on.touch()
    for line in ("p amount", "q"):
        dialogue.answer(line)
    assert "\n500\n" in dialogue.finish().stream()


def test_nobody_of_that_name(fresh: Kernel) -> None:
    assert fresh.fail("%fiber debug Accont").text.startswith("%fiber debug knows no actor 'Accont'")
    assert fresh.fail("%fiber debug extra 77").text.startswith("%fiber debug knows no actor 'extra 77'")
