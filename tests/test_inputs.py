"""Numbers, counts, choices and flags: taken, or refused by name."""

import re

import numpy as np
import pytest

from bart.inputs import check_choice, check_count, check_flag, check_real


def refused(message, function, *args, error=ValueError):
    with pytest.raises(error, match=re.escape(message)):
        function(*args)


def test_numbers_and_their_bounds():
    assert check_real(np.float32(0.5), "a") == 0.5 and check_real(3, "a") == 3.0
    assert check_real(0, "a", 0, 1, "low") == 0.0 and check_real(1, "a", 0, 1, "both") == 1.0
    refused("a must be finite and > 0, got 0", check_real, 0, "a", 0)
    refused("a must be finite and >= 0 and < 1, got 1.0", check_real, 1.0, "a", 0, 1, "low")
    refused("a must be finite, got nan", check_real, np.nan, "a")
    for bad in (True, "1", None, [1.0], np.array(1.0), 1j):
        refused("a must be a real number", check_real, bad, "a", error=TypeError)


def test_counts_choices_flags():
    assert check_count(np.int64(3), "n") == 3 and type(check_count(np.int64(3), "n")) is int
    refused("n must be at least 1, got 0", check_count, 0, "n")
    for bad in (1.0, True, "3", None):
        refused("n must be an integer", check_count, bad, "n", error=TypeError)
    assert check_choice("a", "c", ("a", "b")) == "a"
    refused("c must be one of 'a', 'b', got 'd'", check_choice, "d", "c", ("a", "b"))
    refused("c must be one of", check_choice, None, "c", ("a", "b"))
    assert check_flag(np.True_, "f") is True
    refused("f must be True or False", check_flag, 1, "f", error=TypeError)
