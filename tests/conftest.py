"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("busy", deadline=None)  # as machines that run tests are: no verdict depends on time
settings.load_profile("busy")
