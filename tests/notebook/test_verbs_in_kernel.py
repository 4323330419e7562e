"""Verbs in a real kernel with a real cluster, as a front end asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fibernb.notebook.commands import FIBER_HELP, PARALLEL_HELP, VERBS
from tests.notebook.kernel import PATIENCE_S, Kernel, running_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("verbs"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 3")
        yield started


def test_help(kernel: Kernel) -> None:
    assert kernel.run("%%parallel?").stream() == PARALLEL_HELP + "\n"
    assert kernel.run("%fiber?").stream() == FIBER_HELP + "\n"
    for verb in VERBS:
        assert kernel.run(f"%fiber {verb}?").stream() == VERBS[verb].help_text() + "\n"


def test_completion(kernel: Kernel) -> None:
    kernel.run("%config Completer.use_jedi = False\nof_the_notebook = 1")  # jedi takes seconds when it is cold
    reply = kernel.run("%%parallel -w 0\nof_the_engines = 2")
    assert reply.status == "ok"

    def completed(text: str) -> list[str]:
        content: dict[str, Any] = kernel.client.complete(text, reply=True, timeout=PATIENCE_S)["content"]
        assert content["cursor_end"] == len(text)
        return [text[: content["cursor_start"]] + match for match in content["matches"]]

    assert completed("%fiber sca") == ["%fiber scale", "%fiber scatter"]
    assert completed("%fiber restart 0,")[:3] == ["%fiber restart 0,0", "%fiber restart 0,1", "%fiber restart 0,2"]
    assert completed("%%parallel --output=r") == ["%%parallel --output=rank"]
    assert completed("%fiber push of_the") == ["%fiber push of_the_engines", "%fiber push of_the_notebook"]
    assert completed("%%parallel -w 0\nsum(of_the_note")[0].endswith("of_the_notebook")
    name = kernel.run("import fibernb; fibernb.init().name").result.strip("'")
    assert completed("%fiber attach ")[0] == f"%fiber attach {name}"


def test_what_is_under_the_cursor(kernel: Kernel) -> None:
    content = kernel.client.inspect("%%parallel -w 0", 6, reply=True, timeout=PATIENCE_S)["content"]
    assert content["found"]
    assert "%%parallel --each x=range(100)" in content["data"]["text/plain"]


def test_the_page_tells_what_runs_and_what_is_on_its_way_out(kernel: Kernel) -> None:
    kernel.run("import time")
    kernel.run("%%parallel -a handle\nimport pathlib\npathlib.Path(f'begun{rank}').touch()\ntime.sleep(60)")
    kernel.run("from pathlib import Path\nwhile len(list(Path().glob('begun*'))) < 3: time.sleep(0.01)")
    page = kernel.run("%fiber").of("execute_result")[0]["data"]
    assert "3 seats, 3 ready, 3 busy" in page["text/plain"]
    assert " on [0-2] for up to " in page["text/plain"]
    assert "busy: 0-2" in page["text/html"]
    assert kernel.run("%fiber scale 2").stream() == "2 engines ready; [2] leaves when what it runs has ended\n"
    kernel.run("handle.cancel()")
    kernel.run("%fiber scale 3")


def test_the_timeline_shows_cells_by_their_numbers(kernel: Kernel) -> None:
    kernel.run("%fiber restart")
    reply = kernel.run("%%parallel\ntime.sleep(0.05)")
    number = reply.of("execute_input")[0]["execution_count"]
    page = kernel.run("%fiber timeline --last 60").of("execute_result")[0]["data"]
    assert f"In[{number}]: 3 calls" in page["text/plain"]
    assert f"In[{number}]: 3 calls" in page["text/html"]
    assert "<svg" in page["text/html"]


def test_mistakes_are_one_line(kernel: Kernel) -> None:
    kernel.run("number = 5")
    for source, told in [
        ("%fiber scael 3", "did you mean 'scale'?"),
        ("%fiber 3", "did you mean '%fiber scale 3'?"),
        ("%fiber scale 3 --mni 1", "did you mean '--min'?"),
        ("%fiber config leases=1", "Did you mean 'lease_s'?"),
        ("%fiber attach another", "%fiber detach"),
        ("%fiber restart 9", "there is no rank 9: ranks are 0 to 2"),
        ("%fiber scatter number", "no parts to send out"),
        ("%parallel -w 0 rank", "belongs to a %%parallel cell"),
        ("%fiber timeline /nowhere/at/all.json", "cannot write /nowhere/at/all.json"),
    ]:
        reply = kernel.fail(source)
        assert told in reply.text
        assert len("\n".join(reply.of("error")[0]["traceback"]).splitlines()) == 1, source
