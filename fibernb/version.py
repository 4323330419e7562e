"""The versions that the two ends of a link tell each other.

FiberNB's own is a constant, since asking the installed metadata for it would slow every import down.
"""

from __future__ import annotations

import sys
from typing import Final

VERSION: Final = "0.1.0"
PYTHON: Final[tuple[int, int]] = sys.version_info[:2]  # major, minor
