from __future__ import annotations

import msgspec
import pytest

from fibernb.version import PYTHON, VERSION
from fibernb.wire import check, credentials
from fibernb.wire.handshake import PROTOCOL, Credentials, Refused


def refusal(shown: Credentials, key: str = "key") -> Refused:
    refused = check(shown, key)
    assert refused is not None
    return refused


def test_a_process_is_let_in_by_its_own_kind() -> None:
    shown = credentials("key")
    assert (shown.key, shown.version, shown.protocol, shown.python) == ("key", VERSION, PROTOCOL, PYTHON)
    assert check(shown, "key") is None


def test_another_version_that_speaks_the_same_protocol_is_let_in() -> None:
    assert check(msgspec.structs.replace(credentials("key"), version="99.0"), "key") is None


@pytest.mark.parametrize("key", ["", "kez", "key ", "KEY", "ключ", "k" * 10_000])
def test_another_key(key: str) -> None:
    assert refusal(credentials(key)).kind == "auth"
    assert refusal(credentials("key"), key).kind == "auth"


def test_who_does_not_have_the_key_learns_no_versions() -> None:
    stranger = Credentials(key="guess", version="0", protocol=PROTOCOL + 1, python=(2, 7))
    refused = refusal(stranger)
    assert refused.kind == "auth"
    assert VERSION not in refused.reason


def test_another_protocol() -> None:
    shown = Credentials(key="key", version="7.8.9", protocol=PROTOCOL + 1, python=PYTHON)
    refused = refusal(shown)
    assert refused.kind == "version"
    for part in ("7.8.9", VERSION, str(PROTOCOL), str(PROTOCOL + 1), "install the same version"):
        assert part in refused.reason


@pytest.mark.parametrize("python", [(PYTHON[0], PYTHON[1] + 1), (2, PYTHON[1]), (0, 0)])
def test_another_python(python: tuple[int, int]) -> None:
    refused = refusal(msgspec.structs.replace(credentials("key"), python=python))
    assert refused.kind == "version"
    for part in (f"{python[0]}.{python[1]}", f"{PYTHON[0]}.{PYTHON[1]}", "use the same minor version"):
        assert part in refused.reason
