"""What a notebook defines, seen from another process: real ones, so that nothing is shared by accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENGINE = """
import sys
from fibernb import serialize
size = int(sys.stdin.buffer.readline())
function, args = serialize.loads(sys.stdin.buffer.read(size))
try:
    answer = serialize.dumps(function(*args))
except Exception as error:
    answer = serialize.dumps_error(error, "there")
sys.stdout.buffer.write(answer)
"""

NOTEBOOK = """
import dataclasses, enum, subprocess, sys, functools, collections
from fibernb import serialize

def on_engine(function, *args):
    data = serialize.dumps((function, args))
    message = b"%d\\n" % len(data) + data
    return subprocess.run([sys.executable, "-c", ENGINE], input=message, capture_output=True, check=True).stdout

def call(function, *args):
    return serialize.loads(on_engine(function, *args))

limit = 10

def helper(x):
    return x * limit

class Point:
    made = 0
    def __init__(self, x):
        self.x = x
    def scaled(self):
        return Point(helper(self.x))
    def __eq__(self, other):
        return type(self) is type(other) and self.x == other.x

@dataclasses.dataclass
class Record:
    name: str
    points: list

class Colour(enum.Enum):
    RED = 1

Pair = collections.namedtuple("Pair", "a b")

class Failure(ValueError):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code

@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
"""


def run_notebook(source: str) -> str:
    """Run the source as the main program of a process; what it prints."""
    program = f"ENGINE = {ENGINE!r}\n{NOTEBOOK}\n{source}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("back = call(lambda p: p.scaled(), Point(3))\nprint(type(back) is Point, back.x)", "True 30"),
        ("back = call(lambda: Point(4))\nprint(isinstance(back, Point), back == Point(4))", "True True"),
        ("back = call(lambda: Record('r', [Point(1)]))\nprint(back == Record('r', [Point(1)]))", "True"),
        ("print(call(lambda: Colour.RED) is Colour.RED)", "True"),
        ("print(call(lambda: Pair(1, 2)) == Pair(1, 2), type(call(lambda: Pair(1, 2))) is Pair)", "True True"),
        ("print(call(lambda: Point) is Point)", "True"),
        ("print(call(fib, 50))", "12586269025"),
    ],
)
def test_instances_come_home(source: str, printed: str) -> None:
    assert run_notebook(source).strip() == printed


def test_the_class_at_home_is_not_overwritten_by_its_copy() -> None:
    source = """
def tamper(point):
    type(point).made = 99
    return point
method = Point.scaled
back = call(tamper, Point(1))
limit = 1000
print(Point.made, Point.scaled is method, Point(2).scaled().x, back.scaled().x)
"""
    assert run_notebook(source).strip() == "0 True 2000 1000"


def test_errors_are_of_the_class_of_the_notebook() -> None:
    source = """
def fail():
    raise Failure(3, "because")
error = serialize.loads_error(on_engine(fail))
print(type(error) is Failure, error.code, error, isinstance(error, ValueError))
"""
    assert run_notebook(source).strip() == "True 3 3: because True"


def test_what_an_engine_defines_reaches_the_notebook() -> None:
    source = """
def make():
    class Local:
        def __init__(self):
            self.value = [1]
        def get(self):
            return self.value + [limit]
    return Local(), lambda x: x + limit
instance, function = call(make)
print(instance.get(), function(1))
"""
    assert run_notebook(source).strip() == "[1, 10] 11"


def test_a_changed_class_reaches_the_engine_again() -> None:
    """Elsewhere than at home a newer copy replaces an older one."""
    source = """
first = serialize.dumps(Point(1))
Point.made = 5
second = serialize.dumps(Point(1))
program = '''
import sys
from fibernb import serialize
a, b = eval(sys.argv[1])
one = serialize.loads(a)
before = one.made
two = serialize.loads(b)
print(before, one.made, type(one) is type(two))
'''
print(subprocess.run([sys.executable, "-c", program, repr((first, second))], capture_output=True, text=True).stdout)
"""
    assert run_notebook(source).strip() == "0 5 True"
