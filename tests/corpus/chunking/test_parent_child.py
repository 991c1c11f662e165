from __future__ import annotations

from cutting import WORDS, check, pieces

from rag_lab.contracts import Acl, SectionRights
from rag_lab.corpus.chunking import Blocks, ParentChild, Window

TEXT = "# Leave\n\nOne two three four. Five six seven eight. Nine ten.\n\n# Travel\n\nEleven twelve thirteen. Fourteen."


def test_children_are_searched_and_their_section_is_shown() -> None:
    found = pieces(ParentChild(8, 40), TEXT)
    check(TEXT, found)
    parents = [piece.span for piece in pieces(Blocks(40), TEXT)]
    assert [piece.shown for piece in found] == [parents[0], parents[0], parents[1]]
    assert [TEXT[slice(*piece.span)] for piece in found] == [
        "# Leave\n\nOne two three four.",
        "Five six seven eight. Nine ten.",
        "# Travel\n\nEleven twelve thirteen. Fourteen.",
    ]
    assert [piece.section_path for piece in found] == [("Leave",), ("Leave",), ("Travel",)]


def test_parents_of_one_section_never_reach_over_a_change_of_rights_and_windows_may() -> None:
    secret = SectionRights((TEXT.index("Five"), TEXT.index("Nine")), Acl(groups=("board",)))
    for piece in pieces(ParentChild(8, 40), TEXT, sections=(secret,)):
        assert piece.shown is not None
        assert not piece.shown[0] < secret.span[0] < piece.shown[1]
        assert not piece.shown[0] < secret.span[1] < piece.shown[1]
    windows = pieces(ParentChild(8, 40, "window"), TEXT, sections=(secret,))
    assert {piece.shown for piece in windows} == {piece.span for piece in pieces(Window(40), TEXT)}
    assert any(piece.shown and piece.shown[0] < secret.span[0] < piece.shown[1] for piece in windows)


def test_children_of_a_cut_table_carry_its_header() -> None:
    text = "| h | i |\n| - | - |\n" + "\n".join(f"| r{i} | {i} |" for i in range(12))
    found = pieces(ParentChild(10, 30), text)
    check(text, found)
    first = found[0].shown
    assert [piece.lead for piece in found if piece.shown == first] == [None, *[(0, 9)] * 4]
    assert {piece.lead for piece in found if piece.shown != first} == {(0, 9)}
    assert WORDS.count_tokens([text[slice(*found[0].span)]])[0] <= 10
