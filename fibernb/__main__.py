"""``python -m fibernb``."""

from __future__ import annotations

import sys

from fibernb.cli import main

if __name__ == "__main__":
    sys.exit(main())
