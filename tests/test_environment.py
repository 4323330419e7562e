"""Which variables engines get."""

from __future__ import annotations

from fibernb.environment import allowed


def test_the_usual_ones_are_let_through_and_no_others() -> None:
    wanted = {
        "PATH": "1",
        "LC_ALL": "2",
        "XDG_CACHE_HOME": "3",
        "PYTHONPATH": "4",
        "CONDA_PREFIX": "5",
        "OMP_NUM_THREADS": "6",
        "FIBERNB_LEASE_S": "7",
        "TZ": "8",
    }
    others = {"AWS_SECRET_ACCESS_KEY": "x", "PATHOLOGY": "x", "path": "x", "SSH_AUTH_SOCK": "x", "LCX": "x"}
    assert allowed({**wanted, **others}) == wanted


def test_more_can_be_named_or_described() -> None:
    environ = {"MY_TOKEN": "1", "MY_OTHER": "2", "YOUR_TOKEN": "3"}
    assert allowed(environ, ("MY_TOKEN",)) == {"MY_TOKEN": "1"}
    assert allowed(environ, ("MY_*",)) == {"MY_TOKEN": "1", "MY_OTHER": "2"}


def test_tokens_of_the_hub_of_notebooks_never_are() -> None:
    environ = {"JUPYTERHUB_API_TOKEN": "1", "JPY_API_TOKEN": "2", "HOME": "3"}
    assert allowed(environ, ("JUPYTERHUB_*", "JPY_API_TOKEN", "*")) == {"HOME": "3"}
