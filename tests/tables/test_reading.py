"""Users' files as they come, and what is said of those that cannot be used."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain.tables._prices import read_prices
from ascertain.tables._reading import encode, read_frame, read_user_table
from ascertain.tables._usable import idle_columns, set_aside

PATIENTS = "age,pain,scan,sick\n40,None,0.5,no\n?,mild, ? ,yes\n62,NA,-9,yes\n73,mild,,\n"


def write(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_holes_are_found_and_a_category_called_none_is_not_one(tmp_path: Path) -> None:
    table = read_frame(write(tmp_path, PATIENTS), markers=["-9"])
    assert table["age"].isna().tolist() == [False, True, False, False]
    assert table["pain"].tolist()[:2] == ["None", "mild"]
    assert table["pain"].isna().tolist() == [False, False, True, False]
    assert table["scan"].isna().tolist() == [False, True, True, True]
    assert pd.api.types.is_float_dtype(table["scan"])


def test_rows_without_a_target_are_dropped_and_counted(tmp_path: Path) -> None:
    table = read_user_table(write(tmp_path, PATIENTS), "sick")
    assert table.unlabelled == 1
    assert table.classes == ("no", "yes")
    assert table.y.tolist() == [0, 1, 1]
    assert list(table.columns) == ["age", "pain", "scan"]
    assert len(table.columns) == 3


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path: Path, separator: str) -> None:
    table = read_frame(write(tmp_path, PATIENTS.replace(",", separator)))
    assert table["age"].tolist()[2:] == [62, 73]
    assert table.shape == (4, 4)


def test_numbers_with_decimal_commas_are_numbers(tmp_path: Path) -> None:
    table = read_frame(write(tmp_path, "a;b\n1,5;2\n-0,25;3\n"))
    assert table["a"].tolist() == [1.5, -0.25]


def test_a_file_may_mix_decimal_marks_by_column(tmp_path: Path) -> None:
    lines = "income;score;when;debt\n1234,5;638.0;25.10.2020;1.234,5\n-0,25; 7.25 ;26.10.2020;12,5\n;;;\n"
    table = read_frame(write(tmp_path, lines))
    assert table["income"].tolist()[:2] == [1234.5, -0.25]
    assert table["score"].tolist()[:2] == [638.0, 7.25]
    assert table["debt"].tolist()[:2] == [1234.5, 12.5]
    assert table["when"].tolist()[:2] == ["25.10.2020", "26.10.2020"]
    assert table.isna().iloc[2].all()


@pytest.mark.parametrize("separator", [",", "\t"])
def test_decimal_commas_are_read_whatever_separates_cells(tmp_path: Path, separator: str) -> None:
    lines = ["dose|kind", '"1,5"|a', '"2"|b', '",25"|1.5']
    table = read_frame(write(tmp_path, "\n".join(lines).replace("|", separator)))
    assert table["dose"].tolist() == [1.5, 2, 0.25]
    assert table["kind"].tolist() == ["a", "b", "1.5"]


def test_columns_whose_decimal_mark_is_not_clear_are_named(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="'b' holds '1.234', which may stand for 1234 or 1.234; it is taken"):
        table = read_frame(write(tmp_path, "a;b\n0,5;1.234\n1,5;2.345\n"))
    assert table["b"].tolist() == ["1.234", "2.345"]
    with pytest.warns(UserWarning, match="'b' has numbers with decimal commas and with decimal dots"):
        table = read_frame(write(tmp_path, "a;b\n0,5;1.25\n1,5;2,34\n"))
    with pytest.warns(UserWarning, match="'a' holds '1,234', which may stand for 1234 or 1.234; it is read"):
        table = read_frame(write(tmp_path, "a;b;c\n1,234;638.5;1\n7;1.5;2\n"))
    assert table["a"].tolist() == [1.234, 7]
    assert table["b"].tolist() == [638.5, 1.5]
    assert table["c"].tolist() == [1, 2]


def test_compressed_files_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + PATIENTS.encode()))
    assert list(read_frame(path)) == ["age", "pain", "scan", "sick"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_on_any_system(tmp_path: Path, end: str) -> None:
    (tmp_path / "mine.csv").write_bytes(f"a,b,y{end}1,2,yes{end}3,,no{end}".encode())
    table = read_frame(tmp_path / "mine.csv")
    assert list(table) == ["a", "b", "y"]
    assert table["y"].tolist() == ["yes", "no"]
    assert table["b"].isna().tolist() == [False, True]


def test_parquet_gives_the_same_table(tmp_path: Path) -> None:
    from_text = read_frame(write(tmp_path, PATIENTS), markers=["-9"])
    raw = pd.DataFrame(
        {
            "age": [40, np.nan, 62, 73],
            "pain": ["None", "mild", "NA", "mild"],
            "scan": [0.5, np.nan, -9, np.nan],
            "sick": ["no", "yes", "yes", None],
        }
    )
    raw.to_parquet(tmp_path / "mine.parquet")
    table = read_frame(tmp_path / "mine.parquet", markers=["-9"])
    assert table.isna().equals(from_text.isna())
    assert table["scan"].tolist()[0] == 0.5


@pytest.mark.parametrize("kind", ["object", "string", "category"])
@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet"])
def test_line_breaks_within_names_and_texts_become_spaces(tmp_path: Path, name: str, kind: str) -> None:
    texts = pd.Series(["well", "ill\r\n Error:\tforged", None, "well\n"], dtype=kind)
    raw = pd.DataFrame({"age\n\tError: forged": [1.5, 2.5, 3.5, 4.5], "y": texts})
    raw.to_csv(tmp_path / name, index=False) if name.endswith("csv") else raw.to_parquet(tmp_path / name)
    table = read_frame(tmp_path / name)
    assert list(table) == ["age Error: forged", "y"]
    assert table["y"].dropna().tolist() == ["well", "ill Error: forged", "well"]
    assert table["y"].isna().tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (PATIENTS, "Sik", "no column 'Sik'; did you mean 'sick'?"),
        (PATIENTS, "zzz", "no column 'zzz'; there are 'age', 'pain'"),
        ("a,sick\n1,no\n2,no\n", "sick", "has one class, 'no'; there is nothing to predict"),
        ("a,sick\n1,\n2,?\n", "sick", "is empty in all 2 rows"),
        ("sick\nno\nyes\n", "sick", "no column besides the target"),
        ("a,y\n" + "".join(f"1,{i}.5\n" for i in range(40)), "y", "a regression target, with 40 different"),
        ("a,y\n" + "".join(f"1,{i % 3}.5\n" for i in range(40)), "y", "from 0.5 to 2.5, but classes are"),
        ("a,y\n" + "".join(f"1,{i}\n" for i in range(40)), "y", "'y' is a regression target, with 40"),
        ("a,y\n1,err\n" + "".join(f"1,{i}\n" for i in range(40)), "y", "is a regression target, with 40"),
        ("a,y\n" + "".join(f"1,k{i}\n" for i in range(40)), "y", "40 different values, more than 30"),
        ("a,b,a\n1,2,3\n", "b", "two columns of mine.csv are called 'a'"),
        ("1,2,3\n4,5,6\n", "b", "the first line of mine.csv holds no names"),
        ("a,b\n1,2\n1,2,3\n", "b", "cannot be read as a table separated by ','"),
        ("a,b\n1,2,3\n1,2,3\n", "b", "cannot be read as a table separated by ','"),
        ("a,b\n", "b", "it is empty"),
        ("", "b", "mine.csv is empty"),
        ("  \n\n", "b", "mine.csv is empty"),
    ],
)
def test_what_cannot_be_used_is_explained(tmp_path: Path, text: str, target: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_user_table(write(tmp_path, text), target)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_named_with_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path, PATIENTS, "patients.csv")
    with pytest.raises(InputError, match=r"there is no file .*patient\.csv; did you mean 'patients\.csv'\?"):
        read_frame(tmp_path / "patient.csv")
    with pytest.raises(InputError, match=r"there is no file .*other/patient\.csv$"):
        read_frame(tmp_path / "other" / "patient.csv")


def test_other_encodings_are_explained_and_may_be_named(tmp_path: Path) -> None:
    text = "größe,y\n1,2\n"
    (tmp_path / "mine.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(
        InputError, match=r"mine\.csv is not UTF-8 text .* name its encoding \(--encoding cp1252"
    ):
        read_frame(tmp_path / "mine.csv")
    assert list(read_frame(tmp_path / "mine.csv", encoding="cp1252")) == ["größe", "y"]
    with pytest.raises(InputError, match="no encoding is called 'latin-99'; try cp1252"):
        read_frame(tmp_path / "mine.csv", encoding="latin-99")
    with pytest.raises(InputError, match=r"mine\.csv is not ascii text"):
        read_frame(tmp_path / "mine.csv", encoding="ascii")
    (tmp_path / "wide.csv").write_bytes(text.encode("utf-16"))  # as Excel's "Unicode text"
    assert list(read_frame(tmp_path / "wide.csv")) == ["größe", "y"]


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    path = tmp_path / "mine.xlsx"
    patients = pd.DataFrame(
        {
            "age": [40, None, 62, 73],
            "Blood\npressure": [120.5, 130, "?", -9],
            "pain": ["None", "mild", None, "mild, then none"],
            "seen": pd.to_datetime(
                pd.Series(["2021-03-05 00:00", "2021-03-06 14:30", None, "2021-04-01 00:00"])
            ),
            "smoker": [True, False, None, True],
            "sick": ["no", "yes", "yes", None],
        }
    )
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        patients.to_excel(book, sheet_name="2021", index=False)
        pd.DataFrame({"name": ["age", "pain"], "cost": [1.5, "2,50 €"]}).to_excel(
            book, sheet_name="prices", index=False
        )
    return path


@pytest.mark.filterwarnings("ignore:.*the sheet '2021' is read")
def test_a_sheet_of_a_workbook_is_read_as_its_csv_is(workbook: Path) -> None:
    table = read_frame(workbook, markers=["-9"])
    assert list(table) == ["age", "Blood pressure", "pain", "seen", "smoker", "sick"]
    assert table["age"].tolist()[2:] == [62, 73]
    assert table["Blood pressure"].isna().tolist() == [False, False, True, True]
    assert table["pain"].tolist()[3] == "mild, then none"
    assert table["seen"].tolist()[:2] == ["2021-03-05", "2021-03-06 14:30:00"]
    assert table["sick"].isna().tolist() == [False, False, False, True]
    prices = read_frame(workbook, sheet="prices")
    assert prices["name"].tolist() == read_frame(workbook, sheet="2")["name"].tolist() == ["age", "pain"]


def test_workbooks_that_cannot_be_read_are_explained(
    workbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(
        UserWarning, match=r"mine\.xlsx: the sheet '2021' is read, of '2021', 'prices'; --sheet"
    ):
        read_frame(workbook)
    with pytest.raises(InputError, match=r"mine\.xlsx has no sheet 'price'; did you mean 'prices'"):
        read_frame(workbook, sheet="price")
    renamed = tmp_path / "mine.csv"
    renamed.write_bytes(workbook.read_bytes())
    with pytest.raises(InputError, match=r"mine\.csv is a workbook .* call it \.xlsx"):
        read_frame(renamed)
    with pytest.raises(InputError, match=r"a sheet \(--sheet\) is part of a workbook"):
        read_frame(write(tmp_path, PATIENTS), sheet="1")
    broken = write(tmp_path, "no workbook", "broken.xlsx")
    with pytest.raises(InputError, match=r"broken\.xlsx cannot be read as a workbook"):
        read_frame(broken)
    old = tmp_path / "old.xls"
    old.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with pytest.raises(InputError, match=r"of an old Excel; save it as \.xlsx or as CSV"):
        read_frame(old)
    monkeypatch.setattr("ascertain.tables._files.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install "ascertain\[excel\]", or save the sheet as CSV'):
        read_frame(workbook)


def test_prices_in_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "prices.xlsx"
    pd.DataFrame({"name": ["age", "pain"], "cost": [1.234, "2,50 €"]}).to_excel(path, index=False)
    assert read_prices(path) == {"age": 1.234, "pain": 2.5}


def test_columns_that_no_policy_can_use_are_set_aside() -> None:
    n = 300
    columns = pd.DataFrame(
        {
            "patient_id": np.random.default_rng(0).permutation(10 * n)[:n],
            "row": np.arange(n),
            "note": [f"text {i}" for i in range(n)],
            "free": [f"text {i % 250}" for i in range(n)],
            "empty": [None] * n,
            "same": [7.0, np.nan] * (n // 2),
            "weight": np.arange(n) * 10.0,  # all different, but neither a sequence nor called an identifier
            "month": pd.date_range("2020-01-01", periods=n),
        }
    )
    reasons = set_aside(columns)
    assert set(reasons) == {"patient_id", "row", "note", "free", "empty", "same"}  # dates are of use
    assert reasons["note"] == "its texts tell rows apart, as an identifier does"
    assert reasons["row"] == "it numbers the rows, as an identifier does"
    assert reasons["empty"] == "it was never measured"
    assert reasons["same"] == "it always holds 7, so it can tell nothing"
    assert "250 different texts" in reasons["free"]
    assert list(idle_columns(columns)) == ["patient_id", "row", "note", "empty", "same"]
    assert list(idle_columns(columns, named=False)) == ["empty", "same"]
    half = columns.sample(frac=0.5, random_state=0)  # as where rows are held out
    assert {"patient_id", "row", "note"} <= set(set_aside(half))


def test_columns_that_were_hardly_ever_measured_are_set_aside() -> None:
    table = pd.DataFrame(
        {"often": np.arange(50) / 7, "eight": np.nan, "two": np.nan, "one": np.nan, "text": None}
    )
    for name, count in (("eight", 8), ("two", 2), ("one", 1)):
        table.loc[10 : 9 + count, name] = np.arange(count) + 0.5
    table.loc[:6, "text"] = list("abababa")
    found = idle_columns(table)
    assert list(found) == ["two", "one", "text"]
    assert found["two"] == "it was measured in 2 rows, too few to tell anything"
    assert list(idle_columns(table.head(40))) == ["one"]  # all columns of a small table may have as few


def test_numbers_with_stray_texts_are_named_with_rows_and_what_to_type(tmp_path: Path) -> None:
    cells = [f"{i / 7:.3f}" for i in range(40)]
    cells[3] = cells[30] = "err"
    cells[5] = "not done"
    rows = "".join(f"{cell},{i % 4},{'no' if i % 2 else 'yes'}\n" for i, cell in enumerate(cells))
    path = write(tmp_path, "iron,stage,sick\n9,1,\n" + rows)  # the first row has no target
    table = read_user_table(path, "sick")
    assert set_aside(table.columns, first_row=table.first_row) == {
        "iron": "it holds numbers, but in 3 of 40 cells texts: 'err' in rows 6, 33, 'not done' in row 8; if "
        "they mean 'not measured', add --na err --na 'not done'"
    }
    assert path.read_text().splitlines()[5].startswith("err")  # row 6 of the file
    cleaned = read_user_table(path, "sick", markers=["err", "not done"])
    assert not set_aside(cleaned.columns)
    assert cleaned.columns["iron"].isna().sum() == 3


@pytest.mark.parametrize("word", ["inf", "-inf", "1e39"])
def test_an_infinite_cell_is_named_and_may_be_a_marker(tmp_path: Path, word: str) -> None:
    rows = "".join(f"{i / 7:.3f},{'no' if i % 2 else 'yes'}\n" for i in range(40))
    path = write(tmp_path, f"iron,sick\n{rows}{word},no\n")
    with pytest.raises(InputError, match=r"the column 'iron' holds .* in row 42; correct it, or empty it"):
        encode(read_user_table(path, "sick"))
    encoding, aside = encode(read_user_table(path, "sick", markers=[word]))
    assert (encoding.columns[0].name, aside) == ("iron", {})


def test_prices_panels_and_known_columns_survive_what_is_set_aside(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 7},{i % 5},,{'no' if i % 2 else 'yes'}\n" for i in range(40))
    table = read_user_table(write(tmp_path, "id,a,b,e,sick\n" + rows), "sick")
    encoding, aside = encode(
        table, costs={"id": 3, "e": 2, "blood": 5}, groups={"blood": ["a", "e"]}, known=["id", "b"]
    )
    assert set(aside) == {"id", "e"}
    assert {action.name: (action.columns, action.price) for action in encoding.actions} == {
        "blood": (("a",), 5.0),
    }
    assert encoding.known == ("b",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"costs": {"scan": 1}}, "the price list lacks 2 of 3 columns: 'age', 'pain'; list them,"),
        ({"known": ["ages"]}, "known has 'ages', which is no column; did you mean 'age'?"),
        ({"groups": {"g": ["age", "sick"]}}, "the group 'g' has the target 'sick'"),
        (
            {"groups": {"g": ["age", "scam"]}},
            "the group 'g' has 'scam', which is no column; did you mean 'scan'",
        ),
    ],
)
def test_names_that_are_not_there_are_explained(
    tmp_path: Path, options: dict[str, dict[str, float]], message: str
) -> None:
    table = read_user_table(write(tmp_path, PATIENTS), "sick")
    with pytest.raises(InputError) as caught:
        encode(table, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_column_may_say_which_rows_belong_together(tmp_path: Path) -> None:
    rows = "".join(f"p{i // 3},{i % 7},{'no' if i % 2 else 'yes'}\n" for i in range(60))
    path = write(tmp_path, "patient,a,sick\n" + rows)
    table = read_user_table(path, "sick", rows_of="patient")
    assert list(table.columns) == ["a"]
    assert table.instances is not None
    assert table.instances.tolist() == [i // 3 for i in range(60)]
    with pytest.raises(InputError, match=r"no column 'patients' to say which .* did you mean 'patient'"):
        read_user_table(path, "sick", rows_of="patients")
    holes = write(tmp_path, "patient,a,sick\np1,2,no\n,3,yes\n")
    with pytest.raises(InputError, match=r"the column 'patient' \(--rows-of\) is empty in row 3; fill it in"):
        read_user_table(holes, "sick", rows_of="patient")
    one = write(tmp_path, "patient,a,sick\np1,2,no\np1,3,yes\n")
    with pytest.raises(InputError, match="always holds the same; rows cannot be split"):
        read_user_table(one, "sick", rows_of="patient")
