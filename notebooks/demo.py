"""Runs notebooks headless and prints what they came to: the demo of ``make demo``.

Fails when a cell fails, or when the policy that the second notebook trains does not balance the pole.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

SOLVED: Final = 475.0
MEAN_RETURN: Final = re.compile(r"mean return over 100 evaluation episodes: ([\d.]+)")
CELL_TIMEOUT_S: Final = 300
INDENT: Final = "    "


def run(path: Path) -> Any:
    """The notebook with its outputs. Raises CellExecutionError for a cell that fails and is not meant to."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # not its remark on encryption, as this is one machine
    )
    client.execute()
    return notebook


def output_texts(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream":
            yield output["text"]
        elif output["output_type"] == "error":
            yield f"{output['ename']}: {output['evalue']}"
        else:
            yield output["data"].get("text/plain", "")


def transcript(notebook: Any) -> str:
    """Every code cell with the text of its outputs."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        text = "\n".join(text.rstrip() for text in output_texts(cell))
        parts.append("\n".join(f"> {line}" for line in cell["source"].splitlines()))
        if text.strip():
            parts.append("\n".join(INDENT + line for line in text.splitlines()))
    return "\n".join(parts)


def save(notebook: Any, path: Path) -> None:
    """Write it back without what differs from run to run and shows nowhere."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
    notebook["metadata"]["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def mean_return(text: str) -> float | None:
    found = MEAN_RETURN.search(text)
    return float(found[1]) if found else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--save", action="store_true", help="save the notebooks with their new outputs")
    options = parser.parse_args()
    results = []
    for path in options.notebooks:
        print(f"== {path.name}", flush=True)
        begin = time.perf_counter()
        notebook = run(path)
        text = transcript(notebook)
        print(f"{text}\n-- {path.name} ran in {time.perf_counter() - begin:.1f} s\n", flush=True)
        results.append(mean_return(text))
        if options.save:
            save(notebook, path)
    trained = [result for result in results if result is not None]
    for result in trained:
        print(f"mean return of the trained policy over 100 episodes: {result:.1f} ({SOLVED:.0f} is wanted)")
    return int(any(result < SOLVED for result in trained))


if __name__ == "__main__":
    sys.exit(main())
