"""The test cases of CPython's multiprocessing, one class for each kind of object: processes, manager, threads."""

from __future__ import annotations

from tests.cpython import library

library.install_tests_in_module_dict(globals(), "spawn")  # type: ignore[attr-defined]  # it comes with the played source
