"""What processes say to each other, as bytes; nothing here does I/O.

`fibernb.wire.codec` turns typed messages into bytes and back, `fibernb.wire.handshake` has the messages that open a
link, `fibernb.wire.admission` says whom to let in.
"""

from __future__ import annotations

from fibernb.wire.admission import check, credentials

__all__ = ["check", "credentials"]
