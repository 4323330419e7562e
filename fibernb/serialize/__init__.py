"""Values, calls, functions and exceptions as bytes, and back.

Plain values go through the standard pickle; everything else through cloudpickle, which sends what a notebook defines by
value. Large buffers (arrays) leave the pickle and stand behind it in the same blob: they are copied once on each side.
"""

from __future__ import annotations

from fibernb.serialize.calls import dumps_call, loads_call
from fibernb.serialize.failures import dumps_error, loads_error
from fibernb.serialize.functions import content_digest, dumps_function, loads_function
from fibernb.serialize.values import Pickled, Unpicklable, dumps, loads

__all__ = [
    "Pickled",
    "Unpicklable",
    "content_digest",
    "dumps",
    "dumps_call",
    "dumps_error",
    "dumps_function",
    "loads",
    "loads_call",
    "loads_error",
    "loads_function",
]
