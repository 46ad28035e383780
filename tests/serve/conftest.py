from collections.abc import Iterator

import pytest

from ascertain.estimator._advisor import Advisor
from tests.serve.cases import Client, make_advisor, serving


@pytest.fixture(scope="session")
def advisor() -> Advisor:
    return make_advisor()


@pytest.fixture(scope="session")
def client(advisor: Advisor) -> Iterator[Client]:
    """A client of a server with the default limits."""
    with serving(advisor) as found:
        yield found
