import pytest

from ascertain import InputError
from ascertain.datasets import load, names


def test_names_are_distinct() -> None:
    assert len(set(names())) == len(names()) == 16


def test_a_name_that_is_nearly_right_is_put_right() -> None:
    with pytest.raises(InputError, match="no dataset is called 'hart_disease'; did you mean 'heart_disease'"):
        load("hart_disease")


def test_a_name_that_is_not_gets_the_list() -> None:
    with pytest.raises(InputError, match=r"there are 'cube', .*, 'physionet2012'"):
        load("zzz")
