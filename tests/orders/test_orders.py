"""Every row of the table of observed orders shows the order it promises, and the page lists every row."""

from collections import Counter

import pytest

from .collect import PAGE, Measured, all_rows, join_page, listed_names
from .table import Row

ROWS = all_rows()
SLACK = 0.1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_shows_its_order(row):
    assert row.observed() >= row.order - SLACK


def test_rows_are_named_once():
    twice = [name for name, count in Counter(row.name for row in ROWS).items() if count > 1]
    assert not twice


def test_a_row_in_a_norm_other_than_the_maximum_says_why():
    assert not [row.name for row in ROWS if row.norm != "max" and not row.why]


def test_the_page_lists_exactly_the_rows_that_exist():
    wanted = [(row.scheme, row.boundary, row.grid) for row in ROWS]
    listed = listed_names(PAGE.read_text(encoding="utf-8"))
    assert Counter(listed) == Counter(wanted), "run `python -m tests.orders`"


def test_a_page_shows_what_was_measured():
    row = Row("central |4|", "periodic", "nodes", 4.0, lambda n: 3.0 / n**4, (10, 20), why="as it should")
    page = join_page([Measured(row, (3e-4, 1.9e-5)).line])
    assert row.observed() == pytest.approx(4.0)
    assert (
        "| central \\|4\\| | periodic | nodes | 4 | 3.98 | max | 3.00e-04 (10), 1.90e-05 (20) | as it should |" in page
    )
    assert listed_names(page) == [("central |4|", "periodic", "nodes")]
