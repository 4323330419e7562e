"""Reading the lines of magics."""

import re

import pytest

from fibernb.errors import ConfigError
from fibernb.notebook.arguments import HelpAsked, split_each, split_names, split_words, take_each
from fibernb.notebook.commands import CELL, EXPRESSION, FIBER_HELP, VERBS, verb_named
from fibernb.notebook.usage import UsageError, did_you_mean


def test_usage_errors_are_settings_errors() -> None:
    assert issubclass(UsageError, ConfigError)


@pytest.mark.parametrize("seats", ["8", "+8", "-8", "0"])
def test_scale(seats: str) -> None:
    assert VERBS["scale"].parse([seats, "--min", "1"]).seats == seats


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str) -> None:
    with pytest.raises(HelpAsked) as help_:
        VERBS[verb].parse(["--help"])
    assert f"%fiber {verb}" in str(help_.value)
    assert "examples:" in str(help_.value)
    assert f"  {verb} " in FIBER_HELP


@pytest.mark.parametrize("command", [CELL, EXPRESSION])
def test_help_of_parallel(command: object) -> None:
    with pytest.raises(HelpAsked, match="examples:"):
        command.parse(["-h"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("verb", "words", "message"),
    [
        ("scale", [], "%fiber scale: the following arguments are required: N|+N|-N"),
        ("scale", ["4", "--tiemout", "3"], "did you mean '--timeout'?"),
        ("scale", ["4", "--timeout", "-3"], "not a positive number"),
        ("scale", ["4", "--timeout", "soon"], "soon is not a positive number of seconds"),
        ("scale", ["4", "--min", "-3"], "-3"),
        ("stop", ["now"], "'now' is not understood"),
        ("pull", ["x", "--into", "1x"], "'1x' is not a Python name"),
        ("log", ["-n", "-1"], "-1"),
    ],
)
def test_errors_are_one_clear_line(verb: str, words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        VERBS[verb].parse(words)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unknown_verbs() -> None:
    assert verb_named("stop") is VERBS["stop"]
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        verb_named("scael")
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        verb_named("SCALE")
    with pytest.raises(UsageError, match="did you mean '--help'"):
        verb_named("--hlep")
    for seats in ("4", "+4", "-4"):
        with pytest.raises(UsageError, match=re.escape(f"did you mean '%fiber scale {seats}'?")):
            verb_named(seats)
    with pytest.raises(UsageError, match="see %fiber --help"):
        verb_named("qqqq")
    assert did_you_mean("xyz", ["abc"]) == ""


def test_cell_options() -> None:
    options = CELL.parse(
        split_words("-w !0 --into ys -a --push a,b c --no-push --output rank --timeout 2.5", "%%parallel")
    )
    assert (options.ranks, options.into, getattr(options, "async"), options.output) == ("!0", "ys", "", "rank")
    assert split_names(options.push) == ["a", "b", "c"]
    assert options.no_push
    assert options.timeout == 2.5
    assert getattr(CELL.parse(["-a", "h"]), "async") == "h"
    assert getattr(CELL.parse([]), "async") is None
    with pytest.raises(UsageError, match="invalid choice"):
        CELL.parse(["--output", "all"])


def test_options_that_take_many_words_may_be_given_again() -> None:
    assert CELL.parse(["--push", "a", "b", "--into", "v", "--push", "c,d"]).push == ["a", "b", "c,d"]
    started = verb_named("start").parse(["-o", "lease_s=9", "-n", "2", "-o", "progress=false", "resources={}"])
    assert started.options == ["lease_s=9", "progress=false", "resources={}"]
    assert verb_named("start").parse([]).options is None


def test_split() -> None:
    assert split_words("'a b' c", "%fiber push") == ["a b", "c"]
    with pytest.raises(UsageError, match="No closing quotation"):
        split_words("'a", "%fiber push")
    for name in ("a.b", "1a", "class"):
        with pytest.raises(UsageError, match=re.escape(f"{name!r} is not a Python name")):
            split_names([name])
        for option in ("--into", "-a"):
            with pytest.raises(UsageError, match=re.escape(f"{name!r} is not a Python name")):
                CELL.parse([option, name])


@pytest.mark.parametrize("comment", ["# eight", "#eight", "# don't", "# a # 'b"])
def test_comments_are_not_read(comment: str) -> None:
    assert split_words(f"8 --min 1 {comment}", "%fiber scale") == ["8", "--min", "1"]
    assert split_words(comment, "%fiber") == []
    assert split_words(f"trace#1.json {comment}", "%fiber timeline") == ["trace#1.json"]
    with pytest.raises(UsageError, match="No closing quotation"):
        split_words(f"'8 {comment.replace(chr(39), '')}", "%fiber scale")


@pytest.mark.parametrize(
    ("line", "left", "each"),
    [
        ("", "", None),
        ("-w 0", "-w 0", None),
        ("--each x=xs", "", ("x", "xs")),
        ("--each=x=xs --into y", "--into y", ("x", "xs")),
        ("-a --each x=[1, 2] --into y", "-a   --into y", ("x", "[1, 2]")),
        ("--each x=[a for a in range(3)]", "", ("x", "[a for a in range(3)]")),
        ("--each x=a + b --into y", "--into y", ("x", "a + b")),
        ("--each x='a b' -w 0", "-w 0", ("x", "'a b'")),
        ("--each x=f(a, b=1) --retries 0", "--retries 0", ("x", "f(a, b=1)")),
        ("--each x = xs", "", ("x", "xs")),
        ("--each a,b=pairs", "", ("a,b", "pairs")),
        ("--each a, b = zip(xs, ys) --into y", "--into y", ("a,b", "zip(xs, ys)")),
        ("--each index=xs", "", ("index", "xs")),
        ('--each "a, b=zip(xs, ys)"', '--each "a, b=zip(xs, ys)"', None),
        ('--each "x=[1, 2]"', '--each "x=[1, 2]"', None),
    ],
)
def test_take_each(line: str, left: str, each: tuple[str, str] | None) -> None:
    assert take_each(line) == (left, each)


@pytest.mark.parametrize("line", ["--each x=", "--each x=[1, 2", "--each x=for --into y"])
def test_take_each_wants_an_expression(line: str) -> None:
    with pytest.raises(UsageError, match="complete Python expression"):
        take_each(line)


def test_take_each_wants_a_name() -> None:
    for line in ("--each for=xs", "--each x,for=xs"):
        with pytest.raises(UsageError, match="'for' is not a Python name"):
            take_each(line)


def test_take_each_of_a_loop_as_python_writes_it() -> None:
    with pytest.raises(UsageError, match=r"NAME=EXPRESSION: --each x,y=zip\(a, b\)$"):
        take_each("--each x, y in zip(a, b)")


def test_split_each() -> None:
    assert split_each("x=[1, 2]") == ("x", "[1, 2]")
    assert split_each("a, b=zip(xs, ys)") == ("a,b", "zip(xs, ys)")
    for word in ("x", "1=a", "x=", "x=for", "for=x", "a,=x"):
        with pytest.raises(UsageError, match="NAME=EXPRESSION"):
            split_each(word)
