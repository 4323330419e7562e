"""Who is let in: the key of the cluster, the protocol number and the minor version of Python must agree."""

from __future__ import annotations

import hmac

from fibernb.version import PYTHON, VERSION
from fibernb.wire.handshake import PROTOCOL, Credentials, Refused


def credentials(key: str) -> Credentials:
    """What this process shows to the cluster that has this key."""
    return Credentials(key=key, version=VERSION, python=PYTHON)


def check(shown: Credentials, key: str) -> Refused | None:
    """Why the cluster that has this key does not talk to who shows this; None when it does.

    The key comes first: who does not have it learns nothing else.
    """
    if not hmac.compare_digest(shown.key.encode(), key.encode()):
        return Refused(
            kind="auth",
            reason="the key is not that of this cluster: the connection file is another cluster's, or an old one; "
            "read it again, or see with `fibernb list` which clusters there are",
        )
    if shown.protocol != PROTOCOL:
        return Refused(
            kind="version",
            reason=f"FiberNB {shown.version} speaks protocol {shown.protocol}, and this cluster, of FiberNB {VERSION}, "
            f"speaks {PROTOCOL}: install the same version on both sides, or start a new cluster",
        )
    if shown.python != PYTHON:
        return Refused(
            kind="version",
            reason=f"Python {_dotted(shown.python)} and this cluster's Python {_dotted(PYTHON)} cannot read each "
            "other's pickles: use the same minor version on both sides, or start a new cluster",
        )
    return None


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
