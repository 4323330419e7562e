"""What stands in for a value that cannot be pickled."""

import operator
import pickle
from collections.abc import Callable

import pytest

from fibernb.errors import SerializationError
from fibernb.notebook.standin import Pushed, StandIn


@pytest.fixture
def stand_in() -> StandIn:
    made = pickle.loads(pickle.dumps(Pushed("model", "model.inner['lock'] is a lock")))
    assert type(made) is StandIn
    return made


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.attribute,
        lambda x: x(),
        lambda x: x + 1,
        lambda x: 1 + x,
        lambda x: x[0],
        list,
        lambda x: 1 in x,
        lambda x: x == 1,
        lambda x: setattr(x, "a", 1),
        lambda x: f"{x}",
        operator.neg,
        lambda x: isinstance(x, int),
        bool,
        len,
        repr,
        hash,
        pickle.dumps,
        next,
    ],
)
def test_every_use_names_the_variable(stand_in: StandIn, use: Callable[[StandIn], object]) -> None:
    with pytest.raises(SerializationError, match=r"'model' could not be sent .* model.inner\['lock'\] is a lock"):
        use(stand_in)


def test_holding_it_is_no_use(stand_in: StandIn) -> None:
    other = [stand_in]
    assert other[0] is stand_in
