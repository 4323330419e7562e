import pytest

from fibernb.core.events import ClientAttached, EngineAttached, NodeUp


def test_events_are_frozen() -> None:
    event = NodeUp(node="n")
    with pytest.raises(AttributeError):
        event.node = "m"  # type: ignore[misc]


def test_a_first_attachment_has_nothing_to_tell() -> None:
    event = EngineAttached(engine=1, rank=0, pid=1)
    assert (event.received, event.holds, event.running, event.redelivers) == (0, [], False, 0)
    client = ClientAttached(client=1, lease_s=1.0)
    assert (client.resumes, client.engine) == (False, None)
