from fibernb.core.receipts import Receipts


def test_an_engine_forgets_in_order() -> None:
    receipts = Receipts(1)
    first, second = receipts.add(3), receipts.add(4)
    first.holders = 2
    second.holders = 1
    assert not second.settle(), "the older one is open"
    assert not first.settle()
    assert first.settle()
    assert receipts.forget == 4
    assert not receipts.open
    assert receipts.last == 4


def test_a_message_that_nobody_waits_for_is_settled_at_once() -> None:
    receipts = Receipts(1)
    receipts.add(1)
    assert receipts.advance()
    assert not receipts.advance()
    assert receipts.forget == 1
