"""Figures, tables and other displays of engines, in a real kernel with a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.kernel import Kernel, Reply, running_kernel
from tests.notebook.marks import gate

SIZE = 3
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("rich"), FIBERNB_PROGRESS="0") as started:
        started.run(f"%fiber scale {SIZE}")
        started.run("%%parallel\nimport matplotlib.pyplot as plt\nfrom IPython.display import HTML, clear_output")
        yield started


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that shows what cells write while they run."""
    with running_kernel(tmp_path_factory.mktemp("live")) as started:
        started.run(f"%fiber scale {SIZE}")
        started.run("%%parallel\nimport time\nfrom IPython.display import clear_output, display")
        yield started


def displays(reply: Reply, kind: str = "text/plain") -> list[Any]:
    """What is displayed in some kind of representation, live views aside."""
    shown = (content["data"] for content in reply.of("display_data"))
    return [data[kind] for data in shown if kind in data and "of 3 ranks" not in data["text/plain"]]


def test_equal_figures_are_shown_once(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nplt.plot([1, 2])\nNone")
    (figure,) = displays(reply, "image/png")
    assert figure.startswith("iVBOR")
    assert reply.stream() == "[0-2]\n"


def test_different_figures_are_shown_in_rank_order_between_the_lines(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nprint('before')\nplt.plot([1, rank])\nplt.show()\nprint('after')")
    assert len(set(displays(reply, "image/png"))) == SIZE
    assert reply.stream() == "[0-2] before\n" + "".join(f"[{rank}]\n[{rank}] after\n" for rank in range(SIZE))


def test_figures_of_a_cell_that_fails_are_shown(kernel: Kernel) -> None:
    reply = kernel.fail("%%parallel\nplt.plot([1, 2])\nplt.show()\n1 / 0")
    assert len(displays(reply, "image/png")) == 1
    assert reply.error == "ZeroDivisionError"


def test_a_figure_as_value(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nfigure")
    assert reply.result == "[0-2] <Figure size 640x480 with 1 Axes>"


def test_pictures_as_values(kernel: Kernel) -> None:
    body = "from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>') if rank else 'none'"
    (value,) = kernel.run(f"%%parallel\n{body}").of("execute_result")
    page = value["data"]["text/html"]
    assert page.startswith("<section><strong>[0]</strong><pre>&#x27;none&#x27;</pre></section>")
    assert '<section><strong>[1-2]</strong><img alt="SVG" src="data:image/svg+xml;base64,' in page


def test_tables(kernel: Kernel) -> None:
    body = "import pandas as pd\ndisplay(pd.DataFrame({'a': [rank // 2]}))\npd.DataFrame({'b': [1]})"
    reply = kernel.run(f"%%parallel\n{body}")
    assert ["<td>0</td>" in page for page in displays(reply, "text/html")] == [True, False]
    assert reply.stream() == "[0-1]\n[2]\n"
    (value,) = reply.of("execute_result")
    assert value["data"]["text/html"].startswith("<section><strong>[0-2]</strong>")
    assert value["data"]["text/plain"].startswith("[0-2]    b")


def test_a_widget_of_an_engine_is_shown_as_text(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nimport ipywidgets\ndisplay(ipywidgets.IntSlider(3))")
    assert displays(reply) == ["IntSlider(value=3)"]
    assert all(WIDGET not in content["data"] for content in reply.of("display_data"))


def test_clear_output(kernel: Kernel) -> None:
    body = "for i in range(3):\n    clear_output(wait=True)\n    print('step', i)"
    assert kernel.run(f"%%parallel\n{body}").stream() == "[0-2] step 2\n"
    assert kernel.run("%%parallel\nprint('x')\nclear_output()").stream() == ""


def test_updates_within_a_cell(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nh = display('begin', display_id='one')\nh.update(f'rank {rank // 2}')")
    assert displays(reply) == ["'rank 0'", "'rank 1'"]
    assert reply.stream() == "[0-1]\n[2]\n"
    assert reply.of("update_display_data") == []


def test_displays_with_names_of_their_own_are_one_for_each_rank(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nh = display('begin', display_id=True)")
    assert displays(reply) == ["'begin'"] * SIZE
    assert len({content["transient"]["display_id"] for content in reply.of("display_data")}) == SIZE


def test_updates_by_later_cells(kernel: Kernel) -> None:
    first = kernel.run("%%parallel\nh = display('begin', display_id='later')")
    (begun,) = first.of("display_data")
    second = kernel.run("%%parallel\nh.update('all')")
    (updated,) = second.of("update_display_data")
    assert updated["transient"] == begun["transient"]
    assert second.of("display_data") == second.of("stream") == []


def test_updates_of_some_who_shared_a_display(kernel: Kernel) -> None:
    kernel.run("%%parallel\nh = display('begin', display_id='shared')")
    parted = kernel.run("%%parallel\nh.update(f'rank {rank}')")
    assert displays(parted) == [f"'rank {rank}'" for rank in range(SIZE)]
    again = kernel.run("%%parallel\nh.update(f'again {rank}')")
    assert [content["data"]["text/plain"] for content in again.of("update_display_data")] == [
        f"'again {rank}'" for rank in range(SIZE)
    ]
    assert again.of("display_data") == []


def test_a_page_that_is_too_large_is_left_out_and_said_so(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\ndisplay(HTML('x' * 2_000_000))\nprint('after')")
    assert displays(reply) == []
    gap, after = reply.stream().splitlines()
    assert gap.startswith("[0-2] … 1 display (2,000,0")
    assert "output_limit_bytes" in gap
    assert after == "[0-2] after"


def test_results_are_abbreviated_wherever_arrays_are_in_them(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nimport numpy as np\n{'w': np.zeros((100, 100)), 'n': 3}")
    assert reply.result == "[0-2] {'w': ndarray of shape (100, 100) and dtype float64, 'n': 3}"


def test_displays_of_tasks(kernel: Kernel) -> None:
    body = "    import matplotlib.pyplot as plt\n    plt.plot([1, 2])\n    plt.show()\n    return 7\n"
    reply = kernel.run(f"import fibernb as fnb\n@fnb.remote\ndef draw():\n{body}fnb.get(draw.remote())")
    assert len(displays(reply, "image/png")) == 1
    assert reply.result == "7"


def test_a_display_that_one_rank_updates_as_it_goes(live: Kernel, tmp_path: Path) -> None:
    body = f"h = display('begin', display_id=True)\n{gate(tmp_path / 'go on')}\n"
    body += "for i in range(10):\n    time.sleep(0.12)\n    h.update(f'step {i}')"
    reply = live.start(f"%%parallel -w 1\n{body}")
    live.wait_until(reply, lambda so_far: len(so_far.of("display_data")) == 2)
    (tmp_path / "go on").touch()
    live.finish(reply)
    updates = [content["data"]["text/plain"] for content in reply.of("update_display_data")]
    steps = [int(text.strip("'").split()[1]) for text in updates if text.startswith("'step")]
    assert len(reply.of("display_data")) == 2, "the live view and the display"
    assert steps == sorted(set(steps))
    assert steps[-1] == 9


@pytest.mark.parametrize("where", ["", "-w 0"])
def test_what_was_shown_as_it_came_is_cleared(live: Kernel, tmp_path: Path, where: str) -> None:
    body = f"print('early')\n{gate(tmp_path / 'go on')}\nclear_output(wait=True)\nprint('late')"
    reply = live.start(f"%%parallel {where}\n{body}")
    live.wait_until(reply, lambda so_far: "early" in so_far.stream())
    (tmp_path / "go on").touch()
    live.finish(reply)
    kinds = [message["msg_type"] for message in reply.messages]
    after = reply.messages[kinds.index("clear_output") + 1 :]
    shown = [message["content"] for message in after if message["msg_type"] in ("stream", "display_data")]
    assert shown[0]["data"]["text/plain"].startswith(("▶", "✓")), "the view comes back"
    assert "".join(content.get("text", "") for content in shown).endswith("] late\n")
    assert "early" in reply.stream()
    assert sum("late" in content.get("text", "") for content in shown) == 1


def test_the_view_is_static_at_the_end_of_a_cell_that_fails(live: Kernel, tmp_path: Path) -> None:
    reply = live.start(f"%%parallel\nprint('said')\n{gate(tmp_path / 'go on')}\nraise ValueError(rank // 2)")
    live.wait_for_view(reply)
    (tmp_path / "go on").touch()
    assert live.finish(reply).error
    (closed,) = reply.of("update_display_data")
    assert set(closed["data"]) == {"text/plain", "text/html"}
    assert closed["data"]["text/plain"].startswith("✗ 3 of 3 ranks, 3 failed")
    assert reply.stream() == "[0-2] said\n"
