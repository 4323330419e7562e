"""Values, calls, functions and exceptions as bytes, and back.

Plain values go through the standard pickle; everything else through cloudpickle, which sends what a notebook defines by
value. Large buffers (arrays) leave the pickle: they stand behind it in the same blob, and are copied once on each side,
or in the object store of the host (`pack`), where everybody reads the same memory.
"""

from __future__ import annotations

from fibernb.serialize.apart import Apart
from fibernb.serialize.calls import dumps_call, loads_call, pack_call, stowed_call
from fibernb.serialize.failures import dumps_error, fields_of, loads_error, set_fields, told_error
from fibernb.serialize.functions import content_digest, dumps_function, loads_function
from fibernb.serialize.stores import BlockGone, Sink, Source
from fibernb.serialize.values import Packed, Pickled, Unpicklable, dumps, loads, pack

__all__ = [
    "Apart",
    "BlockGone",
    "Packed",
    "Pickled",
    "Sink",
    "Source",
    "Unpicklable",
    "content_digest",
    "dumps",
    "dumps_call",
    "dumps_error",
    "dumps_function",
    "fields_of",
    "loads",
    "loads_call",
    "loads_error",
    "loads_function",
    "pack",
    "pack_call",
    "set_fields",
    "stowed_call",
    "told_error",
]
