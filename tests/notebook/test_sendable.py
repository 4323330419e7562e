from fibernb.notebook.sendable import MAX_CHARACTERS, sendable, without_surrogates


def test_what_can_be_sent_stays_as_it_is() -> None:
    for text in ("", "abc\0\n", "Größe 变量", "x" * MAX_CHARACTERS):
        assert sendable(text) == text


def test_lone_surrogates_are_escaped() -> None:
    assert without_surrogates("a\ud800b\udc80ä") == "a\\ud800b\\udc80ä"
    assert sendable("\ud800") == "\\ud800"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    short = sendable("a" * MAX_CHARACTERS + "b" * MAX_CHARACTERS)
    half = MAX_CHARACTERS // 2
    assert short == "a" * half + f" … {MAX_CHARACTERS:,} characters left out … " + "b" * half
