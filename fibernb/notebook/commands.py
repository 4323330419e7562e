"""Every magic and every verb of ``%fiber``: what it takes and how it is used. Tables only."""

from __future__ import annotations

import re
from typing import Final

from fibernb.notebook.arguments import Argument, Command, count, name, name_or_nothing, seconds
from fibernb.notebook.grouping import MODES
from fibernb.notebook.usage import UsageError, did_you_mean

_RANKS: Final = Argument(
    names=("ranks",), nargs="?", completes="ranks", help="which: 0 | 0,3 | 1:8 | ::2 | !0 (default: all)"
)
_NAMES: Final = Argument(names=("names",), nargs="+", metavar="NAME", completes="names", help="names of variables")

VERBS: Final = {
    verb: Command(name=f"%fiber {verb}".strip(), help=help_text, arguments=arguments, examples=examples)
    for verb, help_text, arguments, examples in (
        (
            "status",
            "Show the cluster: engines, queue, actors, memory, objects and who holds them, and why anything waits.",
            (),
            ("%fiber",),
        ),
        (
            "scale",
            "Declare how many engines there are and wait until they are ready. A running engine is never stopped.",
            (
                Argument(
                    names=("seats",),
                    metavar="N|+N|-N",
                    completes="seats",
                    help="how many, or how many more or fewer",
                ),
                Argument(
                    names=("--min",), kind=count, metavar="N", help="return when so many are ready (default: all)"
                ),
                Argument(names=("--timeout",), kind=seconds, metavar="S", help="give up waiting after S seconds"),
            ),
            ("%fiber scale 8", "%fiber scale +4", "%fiber scale 256 --min 1"),
        ),
        (
            "autoscale",
            "Follow the queue between two numbers of engines.",
            (
                Argument(
                    names=("bounds",),
                    metavar="MIN:MAX|off",
                    completes="bounds",
                    help="fewest and most engines, or off",
                ),
                Argument(
                    names=("--idle",),
                    kind=seconds,
                    default=60.0,
                    metavar="S",
                    help="an idle engine goes after S seconds",
                ),
            ),
            ("%fiber autoscale 0:16", "%fiber autoscale 2:8 --idle 10", "%fiber autoscale off"),
        ),
        (
            "start",
            "Start a cluster. Magics then use it.",
            (
                Argument(
                    names=("-n", "--workers"), kind=count, metavar="N", help="how many engines (default: one a core)"
                ),
                Argument(
                    names=("-b", "--backend"),
                    metavar="BACKEND",
                    completes="backends",
                    help="where engines run (default: local)",
                ),
                Argument(names=("--name",), help="what the cluster is called"),
                Argument(
                    names=("-o", "--options"),
                    nargs="+",
                    metavar="KEY=VALUE",
                    completes="settings",
                    help="settings, as in %%fiber config",
                ),
            ),
            ("%fiber start -n 4", "%fiber start -n 4 --name mine -o lease_s=600"),
        ),
        ("stop", "Stop the cluster and all of its engines.", (), ("%fiber stop",)),
        (
            "restart",
            "Replace engines by fresh ones, which get the pushed names again.",
            (_RANKS,),
            ("%fiber restart", "%fiber restart 3"),
        ),
        ("list", "List the running clusters of this user.", (), ("%fiber list",)),
        (
            "attach",
            "Use a cluster that runs already, with the names its engines hold.",
            (
                Argument(
                    names=("name",),
                    nargs="?",
                    completes="clusters",
                    help="which (default: the only one, or this notebook's)",
                ),
            ),
            ("%fiber attach", "%fiber attach mine"),
        ),
        ("detach", "Leave the cluster and let it run until it is stopped.", (), ("%fiber detach",)),
        (
            "push",
            "Send variables of the notebook to the engines, changed or not.",
            (
                _NAMES,
                Argument(
                    names=("-w", "--ranks"), metavar="RANKS", completes="ranks", help="to these ranks (default: all)"
                ),
            ),
            ("%fiber push a b c", "%fiber push model -w 0:4"),
        ),
        (
            "pull",
            "Fetch variables of the engines: each becomes a list by rank.",
            (
                _NAMES,
                Argument(
                    names=("--into",),
                    kind=name,
                    metavar="NAME",
                    completes="names",
                    help="bind the list to this name (one variable only)",
                ),
                Argument(
                    names=("-w", "--ranks"), metavar="RANKS", completes="ranks", help="from these ranks (default: all)"
                ),
            ),
            ("%fiber pull x", "%fiber pull x --into xs", "%fiber pull a b -w 0:4"),
        ),
        (
            "scatter",
            "Cut a sequence into pieces, one for each rank, under its own name.",
            (Argument(names=("name",), completes="names", help="the variable that holds it"), _RANKS),
            ("%fiber scatter xs",),
        ),
        (
            "gather",
            "Put the pieces of a scattered sequence together again, under its own name.",
            (Argument(names=("name",), completes="names", help="the variable"), _RANKS),
            ("%fiber gather xs",),
        ),
        (
            "config",
            "Show the settings, or set some. Those of a running cluster hold from its next start.",
            (
                Argument(
                    names=("settings",),
                    nargs="*",
                    metavar="KEY|KEY=VALUE",
                    completes="settings",
                    help="one setting to show, or settings to change",
                ),
            ),
            ("%fiber config", "%fiber config lease_s", "%fiber config progress=false"),
        ),
        ("ps", "List engines and what they run, then actors.", (_RANKS,), ("%fiber ps", "%fiber ps 0:8")),
        (
            "timeline",
            "Show what ran when on which engine, or write it as a trace for Perfetto or Chrome.",
            (
                Argument(
                    names=("file",),
                    nargs="?",
                    metavar="FILE",
                    completes="files",
                    help="write a trace there instead, for https://ui.perfetto.dev or chrome://tracing",
                ),
                Argument(names=("--last",), kind=seconds, metavar="S", help="show only the last S seconds of it"),
            ),
            ("%fiber timeline", "%fiber timeline --last 30", "%fiber timeline trace.json"),
        ),
        (
            "log",
            "Show the last lines that engines wrote: all of them, those that a cell left out as well.",
            (
                Argument(
                    names=("ranks",),
                    nargs="*",
                    completes="ranks",
                    help=f"{_RANKS.help}; extra 2: an engine beside the seats, as %%fiber ps calls it",
                ),
                Argument(
                    names=("-f", "--follow"), flag=True, help="go on with what they write, until you interrupt the cell"
                ),
                Argument(
                    names=("-n", "--lines"),
                    kind=count,
                    metavar="N",
                    help="how many lines of each (default: 50, or what a cell may show of so many engines)",
                ),
            ),
            ("%fiber log 3", "%fiber log -n 10", "%fiber log -f", "%fiber log extra 2"),
        ),
        (
            "cancel",
            "Cancel every cell that runs in the background, or one thing that runs.",
            (
                Argument(
                    names=("id",),
                    nargs="?",
                    metavar="ID",
                    completes="names",
                    help="a handle or references by their variable, a cell by its number, tasks by their function",
                ),
            ),
            ("%fiber cancel", "%fiber cancel handle", "%fiber cancel 7", "%fiber cancel train"),
        ),
        (
            "debug",
            (
                "Look at the last error of an engine or actor with Python's debugger, in the frames that raised it.\n"
                "p EXPR shows a value, up and down change the frame, help lists the commands, quit ends it."
            ),
            (
                Argument(
                    names=("whose",),
                    nargs="*",
                    metavar="RANK or ACTOR",
                    completes="ranks",
                    help="whose error: a rank, or an actor by its variable, name or class (default: the latest, on the "
                    "lowest rank)",
                ),
            ),
            ("%fiber debug", "%fiber debug 3", "%fiber debug counter"),
        ),
        ("interrupt", "Interrupt what engines run now.", (_RANKS,), ("%fiber interrupt", "%fiber interrupt 0,3")),
    )
}

FIBER_HELP: Final = "\n".join(
    [
        "%fiber [VERB]: engines for this notebook. Without a verb: the state of the cluster.",
        "",
        *(f"  {verb:<10} {command.help.splitlines()[0]}" for verb, command in VERBS.items()),
        "",
        "%fiber VERB --help, or %fiber VERB?, tells what a verb takes. %%parallel? tells of cells on the engines.",
    ]
)

_OUTPUT: Final = Argument(
    names=("--output",),
    choices=MODES,
    default="auto",
    help="auto: equal output once; rank: each rank by itself; first: lowest rank only; none",
)

CELL: Final = Command(
    name="%%parallel",
    help="Run the cell on the engines. The value of its last expression comes back as a list by rank.\n"
    "The body has rank, size and every name of the notebook that it reads.",
    arguments=(
        Argument(
            names=("-w", "--ranks"),
            metavar="RANKS",
            completes="ranks",
            help="where: 0 | 0,3 | 1:8 | ::2 | !0 (default: all)",
        ),
        Argument(
            names=("--into",),
            kind=name,
            metavar="NAME",
            completes="names",
            help="bind the list of values to this name",
        ),
        Argument(
            names=("-a", "--async"),
            nargs="?",
            kind=name_or_nothing,
            const="",
            metavar="NAME",
            help="return at once, with a handle",
        ),
        Argument(names=("--push",), nargs="+", metavar="NAMES", completes="names", help="send these names as well"),
        Argument(names=("--no-push",), flag=True, help="send no names"),
        _OUTPUT,
        Argument(names=("--timeout",), kind=seconds, metavar="S", help="cancel the cell after S seconds"),
        Argument(
            names=("--each",),
            metavar="x=XS",
            help="run once for every item of XS, as x, wherever there is room; x,y=XS names the parts of each item",
        ),
        Argument(
            names=("--retries",),
            kind=count,
            metavar="N",
            help="with --each: how many engine deaths an item may see (3)",
        ),
        Argument(
            names=("--on-error",), choices=("raise", "keep"), help="with --each: keep puts exceptions among the values"
        ),
    ),
    examples=(
        "%%parallel                                                 # on all ranks",
        "%%parallel -w 0:4 --into values                            # on the first four; keep the list",
        "%%parallel -a handle --timeout 60                          # in the background, a minute at most",
        "%%parallel --each x=range(100) --into ys --on-error keep   # a hundred tasks, where there is room",
    ),
)

EXPRESSION: Final = Command(
    name="%parallel",
    help="The value of an expression on every rank, as a list in rank order.",
    arguments=(Argument(names=("expression",), metavar="EXPR", help="any Python expression"),),
    examples=("%parallel rank ** 2", "values = %parallel x.mean()"),
)


PARALLEL_HELP: Final = f"{CELL.help_text()}\n\n{EXPRESSION.help_text()}"

_SEATS: Final = re.compile(r"[+-]?\d+")


def verb_named(word: str) -> Command:
    """The verb of that name. Raises UsageError, with the nearest one, if there is none."""
    if word in VERBS:
        return VERBS[word]
    nearest = f"%fiber scale {word}" if _SEATS.fullmatch(word) else ""
    hint = f"; did you mean {nearest!r}?" if nearest else did_you_mean(word, [*VERBS, "--help"])
    raise UsageError(f"%fiber has no verb {word!r}{hint or '; see %fiber --help'}")
