"""Threads that take turns."""

import threading
import time

import pytest

from ascertain._core.threads import Turns


def test_turns_come_in_the_order_of_asking() -> None:
    turns, order = Turns(), list[str]()

    def ask(name: str) -> None:
        with turns:
            order.append(name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcde"]
    with turns:
        for place, thread in enumerate(threads, 1):
            thread.start()
            while len(turns._asking) < place:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == list("abcde")


def test_who_asks_again_at_once_has_to_wait_for_others() -> None:
    turns, order = Turns(), list[str]()

    def ask() -> None:
        with turns:
            order.append("other")

    other = threading.Thread(target=ask)
    with turns:
        other.start()
        while not turns._asking:
            time.sleep(0.001)
    with turns:
        order.append("again")
    other.join()
    assert order == ["other", "again"]


def test_an_error_ends_a_turn() -> None:
    turns, came = Turns(), threading.Event()

    def come() -> None:
        with turns:
            came.set()

    with pytest.raises(ValueError, match="failed"), turns:
        raise ValueError("failed")
    threading.Thread(target=come, daemon=True).start()
    assert came.wait(10)


def test_no_more_have_their_turn_than_may() -> None:
    turns, here, most = Turns(2), list[int](), list[int]()

    def come(number: int) -> None:
        with turns:
            here.append(number)
            most.append(len(here))
            time.sleep(0.01)
            here.remove(number)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8
    assert max(most) == 2
