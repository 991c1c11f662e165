from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.generation.queries.decomposition import LONGEST, SubQuestion, decompose
from rag_lab.generation.queries.guard import added

ENGLISH = [
    ("Who is the spouse of the director of Titanic?", ["Who is the director of Titanic?", "Who is the spouse of #1?"]),
    ("When was the director of the film Jaws born?", ["Who is the director of the film Jaws?", "When was #1 born?"]),
    ("What year was Titanic's director born?", ["Who is the director of Titanic?", "What year was #1 born?"]),
    ("How big is the capital of France?", ["What is the capital of France?", "How big is #1?"]),
    (
        'Where was the author of "War and Peace" born?',
        ['Who is the author of "War and Peace"?', "Where was #1 born?"],
    ),
    (
        "What post was held by the woman who portrayed Ann Lee in the film Kiss and Tell?",
        ["Which woman portrayed Ann Lee in the film Kiss and Tell?", "What post was held by #1?"],
    ),
    ("Where was the man who founded Apple born?", ["Which man founded Apple?", "Where was #1 born?"]),
    (
        "How many employees does the company founded by Ann Lee have?",
        ["Which company was founded by Ann Lee?", "How many employees does #1 have?"],
    ),
    (
        "Who directed the film in which Tom Hanks played Forrest?",
        ["In which film Tom Hanks played Forrest?", "Who directed #1?"],
    ),
    (
        "Who was the wife of the president of the country where the Eiffel Tower is located?",
        ["In which country is the Eiffel Tower located?", "Who is the president of #1?", "Who was the wife of #2?"],
    ),
    ("Who sang the song that Bob Dylan wrote?", ["Bob Dylan wrote which song?", "Who sang #1?"]),
    ("Who owns the band whose album is Blue Moon?", ["Which band's album is Blue Moon?", "Who owns #1?"]),
    ("Who directed the film starring Ann Lee?", ["Which film is starring Ann Lee?", "Who directed #1?"]),
    (
        "Which magazine was started first, Arthur's Magazine or First for Women?",
        ["When was Arthur's Magazine started?", "When was First for Women started?"],
    ),
    ("Who is older, Tom Hanks or Brad Pitt?", ["When was Tom Hanks born?", "When was Brad Pitt born?"]),
    ("Who was born later, Ann Lee or Bob Ray?", ["When was Ann Lee born?", "When was Bob Ray born?"]),
    ("Who died first, Ann Lee or Bob Ray?", ["When did Ann Lee die?", "When did Bob Ray die?"]),
    ("Between Everest and K2, which is taller?", ["How tall is Everest?", "How tall is K2?"]),
    ("Which is more expensive, Gold or Tin?", ["How expensive is Gold?", "How expensive is Tin?"]),
    (
        "Which city has more inhabitants, Lagos, Cairo or Nairobi?",
        [f"How many inhabitants does {city} have?" for city in ("Lagos", "Cairo", "Nairobi")],
    ),
    ("Which one won the cup, Ajax or Benfica?", ["Which one won the cup, Ajax?", "Which one won the cup, Benfica?"]),
    (
        "Were Ann Lee and Bob Ray of the same nationality?",
        ["What is the nationality of Ann Lee?", "What is the nationality of Bob Ray?"],
    ),
    (
        "Are both Paris and Lyon located in the same country?",
        ["In which country is Paris located?", "In which country is Lyon located?"],
    ),
    ("Are Paris and Lyon both ports?", ["Is Paris ports?", "Is Lyon ports?"]),
    (
        "What nationality are Ann Lee and Bob Ray?",
        ["What is the nationality of Ann Lee?", "What is the nationality of Bob Ray?"],
    ),
    ("What do Ann Lee and Bob Ray have in common?", ["What is Ann Lee?", "What is Bob Ray?"]),
    ("What is the difference between TCP and UDP?", ["What is TCP?", "What is UDP?"]),
    (
        "Who is older, the director of Jaws or the director of Alien?",
        ["Who is the director of Jaws?", "When was #1 born?", "Who is the director of Alien?", "When was #3 born?"],
    ),
    ("When was Apple founded and who is its CEO?", ["When was Apple founded?", "Who is Apple's CEO?"]),
    (
        "Which city hosted the 2012 Olympics and what is its population?",
        ["Which city hosted the 2012 Olympics?", "What is #1's population?"],
    ),
    ("Who wrote Emma? When did she die?", ["Who wrote Emma?", "When did #1 die?"]),
    ("Who uses C# and when was it released?", ["Who uses C#?", "When was #1 released?"]),
]
CHINESE = [
    ("《泰坦尼克号》的导演的妻子是谁？", ["《泰坦尼克号》的导演是谁？", "#1的妻子是谁？"]),
    ("法国首都的人口是多少？", ["法国的首都是哪里？", "#1的人口是多少？"]),
    ("《红楼梦》的作者出生在哪里？", ["《红楼梦》的作者是谁？", "#1出生在哪里？"]),
    ("创办阿里巴巴的人出生在哪里？", ["谁创办阿里巴巴？", "#1出生在哪里？"]),
    ("举办2008年奥运会的城市有多少人口？", ["哪个城市举办2008年奥运会？", "#1有多少人口？"]),
    ("张艺谋执导的电影是谁主演的？", ["张艺谋执导的电影是哪部电影？", "#1是谁主演的？"]),
    ("鲁迅和老舍谁出生更早？", ["鲁迅什么时候出生？", "老舍什么时候出生？"]),
    ("长江与黄河哪条更长？", ["长江有多长？", "黄河有多长？"]),
    ("哪座城市人口更多，北京还是上海？", ["北京的人口是多少？", "上海的人口是多少？"]),
    ("鲁迅和老舍的国籍相同吗？", ["鲁迅的国籍是什么？", "老舍的国籍是什么？"]),
    ("北京和上海都是直辖市吗？", ["北京是直辖市吗？", "上海是直辖市吗？"]),
    ("TCP和UDP有什么区别？", ["TCP是什么？", "UDP是什么？"]),
    (
        "苹果公司是什么时候成立的，以及它的首席执行官是谁？",
        ["苹果公司是什么时候成立的？", "苹果公司的首席执行官是谁？"],
    ),
    ("谁写了《边城》？他出生在哪里？", ["谁写了《边城》？", "#1出生在哪里？"]),
]
SIMPLE = [
    "Who is the director of Titanic?",
    "What is the leave policy for part-time staff?",
    "Does zinc improve immune function?",
    "Is there evidence that zinc improves immune function?",
    "Did the woman who played Ripley win an Oscar?",
    "What is #1?",
    "",
    "?",
    "泰坦尼克号的导演是谁？",
    "年假有多少天？",
]


@pytest.mark.parametrize(("question", "parts"), ENGLISH + CHINESE)
def test_the_parts_of_a_question(question: str, parts: list[str]) -> None:
    found = decompose([question], [""])[0]
    assert [part.text for part in found] == parts
    own = re.compile(r"#(\d+)")
    assert [part.needs for part in found] == [tuple(int(n) for n in own.findall(part.text)) for part in found]


@pytest.mark.parametrize("question", SIMPLE)
def test_what_has_one_part_is_left_alone(question: str) -> None:
    assert decompose([question], [""]) == [[]]


def test_a_text_is_no_question() -> None:
    question = ENGLISH[0][0]
    assert decompose([question + " " * (LONGEST - len(question) + 1)], ["en"]) == [[]]


def test_answers_take_the_place_of_references() -> None:
    part = SubQuestion.of("Did #2 marry #1 in 1999?")
    assert part.needs == (1, 2)
    assert part.filled(["Ann", "Bob"]) == "Did Bob marry Ann in 1999?"


def test_the_declared_language_decides() -> None:
    assert decompose(["法国首都的人口是多少？"], ["en"]) == [[]]


ENGLISH_WORDS = "who is the director of Titanic and or born when was which that played in a film 's by , ? A B both are"
CHINESE_WORDS = "的 导演 谁 和 ， ？ 哪个 更大 《甲》 是 执导 电影"
WORDS = [*ENGLISH_WORDS.split(), *CHINESE_WORDS.split(), '"x y"', "#1", "2012", "\ue000"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from(["", " "]), st.sampled_from(["en", "zh"]))
def test_parts_refer_back_and_say_nothing_new(words: list[str], between: str, language: str) -> None:
    question = between.join(words)
    found = decompose([question], [language])[0]
    assert len(found) != 1
    for number, part in enumerate(found, 1):
        assert part.text.strip()
        assert all(0 < needed < number for needed in part.needs)
        assert not re.search("[\ue000-\ue1ff]", part.text)
        assert added(re.sub(r"#\d+", "", part.text), [question]) == []
