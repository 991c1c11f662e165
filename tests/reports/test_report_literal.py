from hypothesis import given
from hypothesis import strategies as st

from rag_lab.reports.literal import excerpt, heading_pieces, on_one_line, pieces, short, visible


def test_controls_and_reordering_marks_are_replaced_and_line_ends_unified() -> None:
    assert visible("a\x00b\u202ec\ud800\r\nd\u2028e\tf") == "a\ufffdb\ufffdc\ufffd\nd\ne\tf"


@given(st.text())
def test_visible_text_can_be_encoded_and_is_stable(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert visible(shown) == shown


@given(st.text(max_size=200), st.integers(1, 30), st.integers(1, 12))
def test_pieces_join_to_the_text(text: str, longest: int, size: int) -> None:
    assert "".join(pieces(text, longest, size)) == text


def test_only_runs_without_a_break_are_cut() -> None:
    assert pieces("short words stay") == ["short words stay"]
    assert pieces("中文不需要断开" * 9) == ["中文不需要断开" * 9]
    assert max(map(len, pieces("x" * 400))) == 8
    assert all(not part.startswith("\u0301") for part in pieces("e\u0301" * 40))


def test_excerpt_says_how_much_was_left_out() -> None:
    shown, note = excerpt("word " * 2000)
    assert len(shown) <= 422
    assert shown.endswith("word …")
    assert note == "first 420 of 9,999 characters"
    assert excerpt("whole") == ("whole", "")


def test_one_line_of_limited_length() -> None:
    assert short("a\nb   c", 10) == "a b c"
    assert short("abcdefghij", 5) == "abcd…"


def test_metric_names_break_between_their_words() -> None:
    assert heading_pieces("AbstentionRecall") == ["Abstention", "Recall"]
    assert heading_pieces("nDCG@10") == ["nDCG@", "10"]
    assert "".join(heading_pieces("gold_context")) == "gold_context"


def test_an_excerpt_can_stand_around_a_wording() -> None:
    text = "a " * 300 + "The Answer is 42. " + "b " * 300
    shown, note = excerpt(text, 100, around=["", "nowhere", "answer is"])
    assert "The Answer is 42." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 104
    assert note.startswith("from character 5")
    assert excerpt(text, 100, around=["nowhere"]) == excerpt(text, 100)
    assert excerpt("x " * 100 + "end", 50, around=["end"])[0].endswith("x end")


def test_white_space_on_one_line() -> None:
    assert on_one_line(" a\r\n\tb \u2028 c ") == "a b c"
