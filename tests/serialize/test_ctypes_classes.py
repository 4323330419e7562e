"""Structures that a notebook defines go by value."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

from fibernb import serialize

READER = """
import sys, pathlib
from fibernb import serialize
structure, number = serialize.loads(pathlib.Path(sys.argv[1]).read_bytes())
made = structure(3, 4.5)
print(made.x, made.y, made.sum(), number.whole, len(number.classes[1]().many), structure._fields_[0][0])
"""
WRITER = """
import ctypes, sys, pathlib
from fibernb import serialize

class Either(ctypes.Union):
    _fields_ = [("whole", ctypes.c_int), ("part", ctypes.c_char)]

class Pair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double)]
    def sum(self):
        return self.x + self.y

class Outer(ctypes.Structure):
    _fields_ = [("one", Either), ("many", Either * 3 * 2)]

class Number:
    whole = 7
    classes = (Either, Outer)

pathlib.Path(sys.argv[1]).write_bytes(serialize.dumps((Pair, Number())))
"""


def test_structures_and_unions_of_a_script_arrive_elsewhere(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    subprocess.run([sys.executable, "-c", WRITER, data], check=True)
    read = subprocess.run([sys.executable, "-c", READER, data], stdout=subprocess.PIPE, text=True, check=True)
    assert read.stdout.split() == ["3", "4.5", "7.5", "7", "2", "x"]


def test_what_can_be_imported_goes_by_name() -> None:
    for class_ in (ctypes.c_int, ctypes.Structure, ctypes.Array):
        assert serialize.loads(serialize.dumps(class_)) is class_
    assert serialize.loads(serialize.dumps(ctypes.c_int * 3)) is ctypes.c_int * 3
    assert serialize.loads(serialize.dumps(ctypes.c_int(5))).value == 5
