"""CPython's ``test._test_multiprocessing``, about our module. What it defines stands here: engines import it."""

from __future__ import annotations

from tests.cpython.adapter import play

play("test._test_multiprocessing", globals())
