"""Every verb of the command line, in this process: what it prints, in both forms, and how it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fibernb import serialize
from fibernb.cli import main
from fibernb.cli.main import VERBS
from fibernb.core.messages import CreateActor, Goodbye, PutObjects
from fibernb.errors import NotConnected
from fibernb.hub.connection import FILE_NAME
from fibernb.model import ActorOptions, Result
from fibernb.serialize.frames import stored_frame
from fibernb.store.agent import StoreAgent
from tests.hub.live import Live, live, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        made.client().scale(2)
        yield made


@pytest.fixture
def there(cluster: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The cluster, findable by name."""
    monkeypatch.setenv("FIBERNB_RUNTIME_DIR", cluster.config.runtime_dir)
    return cluster


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory without clusters."""
    monkeypatch.setenv("FIBERNB_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_without_a_verb_it_shows_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["stop"], ["stop", "x", "--all"], ["status"], ["logs", "x", "--rank", "y"]]
)
def test_wrong_usage_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: fibernb" in capsys.readouterr().err


def test_list(there: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert there.connection.name in printed(capsys, "list")
    [found] = printed_json(capsys, "list")
    assert found["name"] == there.connection.name
    assert "key" not in found


def test_list_of_none(nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "list") == "no clusters\n"
    assert printed_json(capsys, "list") == []


def test_status(there: Live, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "status", there.connection.name)
    assert "seats: 2 declared, 2 ready" in text
    status = printed_json(capsys, "status", str(there.directory))
    assert [seat["rank"] for seat in status["engines"]] == [0, 1]
    assert (status["pid"], status["name"]) == (there.connection.pid, there.connection.name)


def test_status_of_actors_and_objects(there: Live, capsys: pytest.CaptureFixture[str]) -> None:
    client = there.client(client=11, lease_s=0.0)
    actor, value = client.first + 1, client.first + 2
    create = CreateActor(
        actor=actor,
        function=client.define(Fraction),
        args=serialize.dumps_call((1, 3), {}, type(None))[0],
        options=ActorOptions(name="third", class_name="Fraction"),
    )
    with closing(StoreAgent(there.directory, there.connection.key, "the test", 0)) as store:
        buffers = [memoryview(bytes(2_000_000))]
        block, offsets = store.write(buffers)
    stored = stored_frame(b"\x80\x05N.", block, offsets, buffers)
    client.tell(create)
    client.tell(PutObjects(objects=[Result(value, stored, blocks=(block,))]))
    name = there.connection.name
    wait_until(lambda: "ALIVE" in printed(capsys, "status", name), "the actor lives")
    text = printed(capsys, "status", name)
    assert "actors: 1; engines beside the seats: 1\nobjects: 2 kept" in text
    assert "Fraction  third  ALIVE" in text
    assert "object store: 2 of " in text
    assert re.search(r"^20000\d\d .* client b$", text, re.MULTILINE)
    status = printed_json(capsys, "status", name)
    assert [row["class_name"] for row in status["actor_rows"]] == ["Fraction"]
    assert [row["blocks"] for row in status["largest_objects"]] == [[f"{block:#x}"], []]
    assert status["store"]["blocks"] == 1
    assert status["nodes"][0]["total"]["milli_cpus"] == 2000
    client.tell(Goodbye())
    wait_until(lambda: not there.client(client=12, lease_s=0.0).status().extra, "the actor has ended")


def test_status_when_the_store_does_not_answer(
    there: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_store: StoreAgent) -> None:
        raise NotConnected("gone")

    monkeypatch.setattr(StoreAgent, "describe", refuse)
    client = there.client(client=13, lease_s=0.0)
    client.tell(PutObjects(objects=[Result(client.first + 1, b"\x80\x05N.", blocks=(1 << 41,))]))
    assert "objects: 1 kept" in printed(capsys, "status", there.connection.name)
    assert printed_json(capsys, "status", there.connection.name)["store"] is None
    client.tell(Goodbye())


def test_looking_at_a_cluster_does_not_end_it(there: Live, capsys: pytest.CaptureFixture[str]) -> None:
    for client in (8, 9):
        there.client(client=client, lease_s=0.0).tell(Goodbye())
        printed(capsys, "status", there.connection.name)


def test_logs(there: Live, capsys: pytest.CaptureFixture[str]) -> None:
    name = there.connection.name
    (there.directory / "hub.log").write_text("one\ntwo\nthree\n")
    assert printed(capsys, "logs", name, "--lines", "2") == "two\nthree\n"
    assert printed_json(capsys, "logs", name, "--lines", "1") == {"hub.log": "three"}
    (there.directory / "logs" / "rank-0.log").write_text("said\n")
    (there.directory / "logs" / "rank-0.native.log").write_text("from C\n")
    assert printed(capsys, "logs", name, "--rank", "0") == (
        "==> rank-0.log <==\nsaid\n==> rank-0.native.log <==\nfrom C\n"
    )
    assert "has no log of rank 77" in failure(capsys, "logs", name, "--rank", "77")
    (there.directory / "logs" / "extra-9.log").write_text("said beside\n")
    assert printed(capsys, "logs", name, "--extra", "9") == "said beside\n"
    assert "has no log of extra 77" in failure(capsys, "logs", name, "--extra", "77")


@pytest.mark.parametrize("verb", ["status", "stop", "logs"])
def test_a_cluster_that_is_not_there(verb: str, nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, verb, "nobody").startswith("fibernb: there is no cluster at ")
    assert main([verb, "nobody", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "NotConnected"


@pytest.mark.parametrize("verb", ["status", "stop", "logs"])
def test_a_file_that_is_no_connection_file(verb: str, nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nobody / FILE_NAME).write_text("garbage")
    (nobody / FILE_NAME).chmod(0o600)
    assert "is not the connection file of a cluster" in failure(capsys, verb, str(nobody / FILE_NAME))


@pytest.mark.parametrize("verb", ["list", "status", "stop"])
def test_a_wrong_configuration(
    verb: str, nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_LEASE_S", "soon")
    arguments = [verb] if verb == "list" else [verb, "x"]
    assert "variable FIBERNB_LEASE_S: lease_s cannot be 'soon'" in failure(capsys, *arguments)


def test_an_interrupt_is_code_130(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fibernb.cli.list.list_connections", interrupt)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == ""


# ---- stop ----------------------------------------------------------------------------------------------


def test_stop_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with live() as cluster:
        monkeypatch.setenv("FIBERNB_RUNTIME_DIR", cluster.config.runtime_dir)
        cluster.client().scale(1)
        assert printed(capsys, "stop", cluster.connection.name) == f"stopped {cluster.connection.name}\n"
        cluster.wait_gone(1.0)
        assert printed(capsys, "stop", "--all") == "no clusters\n"


def test_stop_all_ends_those_whose_hub_was_killed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with live() as cluster:
        monkeypatch.setenv("FIBERNB_RUNTIME_DIR", cluster.config.runtime_dir)
        cluster.client().scale(1)
        cluster.kill_hub()
        assert "has died: attach to the cluster to start it again" in failure(capsys, "status", cluster.connection.name)
        assert printed_json(capsys, "stop", "--all") == {"stopped": [cluster.connection.name]}
        cluster.wait_gone(1.0)
