import pytest

from gpuproof.terminal.table import render_table


@pytest.fixture(autouse=True)
def _no_terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def test_words_line_up_left_and_numbers_right() -> None:
    table = render_table(["TYPE", "USD"], [["g5.xlarge", "1.01"], ["p5", "55.04"]], right=[1])
    assert table.splitlines() == ["TYPE         USD", "g5.xlarge   1.01", "p5         55.04"]


def test_lines_end_without_blanks() -> None:
    table = render_table(["A", "B"], [["x", ""], ["xx", "yyyy"]])
    assert all(line == line.rstrip() for line in table.splitlines())


def test_a_narrow_terminal_cuts_the_widest_words_and_never_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = render_table(["N", "WORDS", "SIZE"], [["a", "a-very-long-word-indeed", "1234567"]], right=[2])
    assert table.splitlines()[1] == "a  a-very-…  1234567"


def test_the_first_column_is_never_cut_for_people_copy_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    table = render_table(["NAME", "STATUS"], [["ml.p6e-gb200.36xlarge", "capacity-block"]])
    assert "ml.p6e-gb200.36xlarge" in table


def test_a_pipe_gets_whole_cells() -> None:
    name = "n" * 300
    assert name in render_table(["NAME"], [[name]])


def test_a_table_without_rows_is_its_headers() -> None:
    assert render_table(["A", "B"], []) == "A  B"
