"""Every verb of the command line, in this process: what it prints, in both forms, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb.cli import main
from fibernb.cli.main import VERBS
from fibernb.core.messages import Goodbye
from fibernb.hub import limits
from fibernb.hub.connection import FILE_NAME
from tests.hub.live import Live, live


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


# ---- doctor --------------------------------------------------------------------------------------------


def test_doctor_of_a_good_host(nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = {finding["subject"]: finding for finding in printed_json(capsys, "doctor")}
    assert {"system", "ipykernel", "seats", "runtime directory", "sockets", "configuration"} <= set(findings)
    assert not [finding for finding in findings.values() if finding["state"] == "problem"]


def test_doctor_says_what_is_wrong_and_fails(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (nobody / "run").mkdir()
    (nobody / "run").chmod(0o777)
    monkeypatch.setattr(limits, "seat_limit", lambda config: limits.Limit(5, "the test allows 5"))
    monkeypatch.setattr("fibernb.cli.doctor.SHARED_MEMORY", nobody)
    monkeypatch.setattr("fibernb.cli.doctor.ENOUGH_SHARED_BYTES", 1 << 80)
    monkeypatch.setattr("fibernb.cli.doctor.NEEDED", {"ipykernel": 999, "no-such-package": 1})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "is open to others" in text
    assert "at most 5, because the test allows 5" in text
    assert "docker run --shm-size" in text
    assert "pip install 'ipykernel>=999'" in text
    assert "pip install no-such-package" in text


def test_doctor_survives_a_wrong_configuration(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_LEASE_S", "soon")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(nobody))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert main(["doctor"]) == 1
    assert "lease_s cannot be 'soon'" in capsys.readouterr().out


def test_doctor_finds_paths_that_are_too_long_for_sockets(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_RUNTIME_DIR", str(nobody / ("x" * 120)))
    assert main(["doctor"]) == 1
    assert "local directory" in capsys.readouterr().out
