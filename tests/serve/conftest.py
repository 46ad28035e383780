from collections.abc import Iterator

import pytest

from ascertain.estimator._advisor import Advisor
from tests.foresight import with_foresight
from tests.serve.cases import Client, make_advisor, serving


@pytest.fixture(scope="session")
def advisor() -> Advisor:
    return make_advisor()


@pytest.fixture(scope="session")
def client(advisor: Advisor) -> Iterator[Client]:
    """A client of a server with the default limits."""
    with serving(advisor) as found:
        yield found


@pytest.fixture(scope="session")
def foreseeing(advisor: Advisor) -> Advisor:
    """The same advisor with a policy that looks ahead: backwards if the systolic pressure is high."""
    return with_foresight(advisor, "systolic")


@pytest.fixture(scope="session")
def foreseeing_client(foreseeing: Advisor) -> Iterator[Client]:
    with serving(foreseeing) as found:
        yield found
