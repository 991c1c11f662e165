"""Whether generated text declines to answer: English, Chinese and German.

The whole answer is judged, not a word in it. Text is cut into clauses, and each clause is a *refusal* (it says that
the sources do not tell, or that the writer does not know), *about the sources* (what they hold instead, apologies,
offers of help) or *content*. Text with a refusal and no content abstains; text with content answers, even when it also
says what it could not find. Markers play no part: an abstention may cite what was looked at. Empty text is neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, TypeAlias

from rag_lab.generation.citations import without_markers

DETECTOR_VERSION = "1"

Kind: TypeAlias = Literal["abstained", "answered", "failed"]

_SOURCE = (
    r"(?:(?:provided|given|supplied|available|retrieved|numbered|above|cited|current|these|those|any|all|none|each|"
    r"of|the|my|our|this|in|your|following)\s+)*"
    r"(?:passages?|contexts?|texts?|documents?|documentation|sources?|excerpts?|information|materials?|snippets?|"
    r"articles?|results?|records?|paragraphs?|index|data|knowledge base|corpus|handbook|evidence|content)"
    r"(?:\s+\d+(?:(?:, | and |, and )\d+)*)?"
)
_TELL = (
    r"(?:contain|mention|include|provide|specify|state|say|tell|indicate|answer|address|discuss|cover|describe|name|"
    r"list|give|offer|reveal|explain|have|hold|show|identify|define|refer|support|supply|disclose|clarify|confirm|"
    r"allow|help|make clear)"
)
_NOT = r"(?:(?:do|does|did)(?: not|n['’]t)|(?:can ?not|can['’]t|could(?: not|n['’]t))|(?:fails?|failed) to|never)"
_REFUSALS = (
    rf"\b{_SOURCE}\b[^.;]{{0,30}}?\b{_NOT}\s+(?:\w+ly\s+|actually |even )?{_TELL}",
    rf"\b{_SOURCE}\b[^.;]{{0,30}}?\b(?:is|are|was|were) (?:silent|not (?:clear|sufficient|enough)|insufficient"
    r"|unclear)",
    rf"\b(?:no|nothing|none|not enough|insufficient|any)\b[^.;]{{0,40}}?\b(?:in|from|within|by|of) {_SOURCE}",
    rf"\b(?:none|neither) of {_SOURCE}",
    r"\bthere (?:is|was) (?:no|not enough|insufficient|not any) (?:\w+ )?(?:information|mention|evidence|detail|data|"
    r"answer|reference|indication)",
    r"\b(?:no|insufficient|not enough|not sufficient) (?:\w+ ){0,2}(?:information|evidence|context|details?)\b"
    r"(?: (?:is|was|are|were|to|about|on|for|provided|available|found|given)|$)",
    rf"\b(?:is|are|was|were)(?: not|n['’]t) (?:\w+ly |being )?(?:mentioned|specified|stated|provided|given|included|"
    rf"described|covered|addressed|found|available|answered|named|listed|contained|indicated|disclosed|discussed)\b"
    rf"(?: (?:anywhere|at all|here|explicitly))?(?: (?:in|by|within|from|anywhere in) {_SOURCE}|\s*$)",
    rf"^(?:(?:it|this|that) is )?not (?:mentioned|specified|stated|provided|given|found|available|answerable)\b"
    rf"(?: (?:in|by) {_SOURCE})?\s*$",
    rf"\b(?:unclear|not clear) (?:from|in) {_SOURCE}",
    r"\b(?:i|we)(?: am| are|['’]m|['’]re)? (?:unable|not able|not in a position) to (?:\w+ )?(?:find|answer|determine|"
    r"locate|say|provide|tell|identify|confirm|give)",
    r"\b(?:i|we) (?:can ?not|can['’]t|could(?: not|n['’]t)|do(?: not|n['’]t)|did(?: not|n['’]t)) (?:\w+ly )?"
    r"(?:find|answer|determine|locate|say|know|tell|identify|see|have|confirm|give|provide)\b",
    r"\b(?:i|we)(?: am|['’]m| are|['’]re) not (?:sure|certain)\b",
    r"\b(?:it|this|the question|the answer)(?: is|['’]s) (?:not possible|impossible) to (?:\w+ )?(?:say|tell|answer|"
    r"determine|know|infer)",
    r"\b(?:the|this|your) (?:question|query|answer) (?:can ?not|can['’]t|could(?: not|n['’]t)) be "
    r"(?:\w+ )?(?:answered|determined|found|given|inferred)",
    r"\b(?:can ?not|can['’]t|could(?: not|n['’]t)) be (?:answered|determined|established|inferred|found)"
    rf"(?: (?:from|with|using|based on|on the basis of|in) {_SOURCE}|\s*$)",
    r"^(?:unanswerable|unknown|no answer|not answerable|n/a|not enough information|insufficient (?:information"
    r"|evidence))$",
    r"(?:无法|不能|难以|未能|没法)(?:从[^，。；]*?中?)?(?:确定|回答|得知|判断|找到|得出|查到|确认|获知|获取|提供|作答|知道|推断)",
    r"(?:没有|未|并未|没|未曾|不曾|尚未)(?:明确|具体|直接|有)?(?:提到|提及|说明|提供|包含|找到|涉及|给出|记载|列出|指出|"
    r"描述|回答|查到|写明|交代|介绍|答案|相关)",
    r"(?:找不到|查不到|看不出)[^，。]{0,6}(?:答案|信息|记载|内容|依据)|(?:不知道|不清楚|不确定|无从得知|无从判断|不得而知)",
    r"(?:信息|资料|证据|材料|依据|内容)(?:不足|不够|有限|缺失)|(?:无|缺少|缺乏|没有)(?:足够的?|任何|充分的?)?"
    r"(?:相关)?(?:信息|资料|答案|证据|依据|记录|内容)",
    r"\b(?:kann|konnte|können|konnten|lässt sich|ist|sind)\b[^.;]{0,60}\b(?:nicht|nichts|kein\w*)\b[^.;]{0,40}"
    r"\b(?:beantwort\w*|finden|gefunden|entnehmen|bestimm\w*|ermitteln|sagen|ersichtlich|angegeben|erwähnt|enthalten)",
    r"\b(?:finde|fand|findet sich|finden sich|steht|stehen|weiß|weiss)\b[^.;]{0,60}\b(?:nicht|nichts|kein\w*)\b",
    r"\b(?:enthalten|enthält|nennen|nennt|erwähnen|erwähnt|beantworten|beantwortet|sagen|sagt)\b[^.;]{0,60}"
    r"\b(?:nicht|nichts|keine?n?)\b",
    r"\b(?:keine|nicht genügend|zu wenig|unzureichende) (?:\w+ )?(?:angaben?|informationen|hinweise?|antwort)",
)
_ABOUT_SOURCES = (
    rf"^(?:(?:instead|rather|they|it|and|only|while|although|though|as|because|since|which|that|where)[, ]+)*"
    rf"(?:\w+ ){{0,2}}{_SOURCE}\s+(?:(?:only|just|merely|mostly|mainly|instead)\s+)*(?:hold|mention|contain|discuss|"
    r"talk|describe|cover|refer|focus|deal|list|say|speak|is about|are about|concern|provide|include|give|relate)",
    r"^(?:instead |rather |and |but )*(?:they|it) (?:only |just |merely |mainly |instead )*(?:mentions?|discuss(?:es)?|"
    r"talks?|describes?|covers?|focus(?:es)? on|deals? with|speaks?|holds?|is about|are about|concerns?|refers? to)\b",
    r"^(?:i['’]?m|i am|we['’]?re|we are)? ?(?:\w+ )?(?:sorry|afraid|apologi[sz]e|unfortunately|regrettably)\b"
    r"[^.;]{0,12}$",
    r"^(?:i|we) apologi[sz]e\b",
    r"\b(?:please|if you|feel free|let me know|you (?:may|might|could|can|should) (?:want|wish|need|consult|contact|"
    r"check|ask|try|provide)|more (?:context|information|details?) (?:is|would|are))\b",
    rf"^(?:based on|according to|given|from|in|judging by|having read|after reading) {_SOURCE}$",
    r"^(?:therefore|thus|so|hence|unfortunately|sorry|however|no|also)$",
    r"^(?:很?抱歉|对不起|不好意思|遗憾|很遗憾|因此|所以|建议|请|如果|如需|如有|您可以|你可以)",
    r"^(?:根据|基于|从|依据|在)?(?:现有|所给|给定|提供的?|以上|上述|这些|该|文中|当前|检索到的?|已有)+的?"
    r"(?:资料|段落|信息|文档|内容|文本|材料|上下文|片段|文章|来源)*(?:来看|中|里|内)?$",
    r"^(?:它们?|文中|文章|段落|资料|文档|其中|索引|材料|所给\w{0,4}|这些\w{0,4})(?:中|里)?(?:只是?|仅仅?|主要|而是)",
    r"^只(?:提到|提及|介绍|说明|讨论|谈到|包含|有)",
    r"^(?:leider|entschuldigung|tut mir leid|es tut mir leid|bitte|wenn sie|falls)\b",
    r"^(?:sie|dort|die (?:unterlagen|texte|dokumente|quellen)) (?:nennen|enthalten|erwähnen|behandeln) nur\b",
)
_REFUSAL = re.compile("|".join(f"(?:{pattern})" for pattern in _REFUSALS), re.IGNORECASE)
_META = re.compile("|".join(f"(?:{pattern})" for pattern in _ABOUT_SOURCES), re.IGNORECASE)
_CLAUSE = re.compile(
    r"[.!?](?=\s|$)|[;:；。！？：\n]|,?\s+(?:but|however|although|though|yet|aber|jedoch|sondern)\b,?|"
    r"[,，]\s*(?=(?:但|不过|然而|而是|只|仅|因此|所以|可是|请|建议))|(?:但是|但|不过|然而|可是)[，,]?|，",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often the detector agrees with people: labelled answers, agreements, and the share by language."""

    version: str
    n: int
    agreed: int
    by_language: dict[str, float]

    @property
    def share(self) -> float:
        """Agreements over labelled answers."""
        return self.agreed / self.n


def detect(text: str) -> Kind:
    """Whether `text` abstains, answers, or is empty (failed)."""
    kinds = [kind for _, kind in _clauses(text)]
    if not kinds:
        return "failed"
    return "abstained" if "refusal" in kinds and "content" not in kinds else "answered"


def content(text: str) -> str:
    """What a partial answer does answer: `text` without its refusals. Text without one comes back as it is."""
    clauses = list(_clauses(text))
    kept = [clause for clause, kind in clauses if kind == "content"]
    return " ".join(kept) if kept and any(kind == "refusal" for _, kind in clauses) else text


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    for piece in _CLAUSE.split(without_markers(text)):
        clause = piece.strip(" \t,，-*_\"'“”‘’()（）.")
        if re.search(r"\w", clause):
            yield clause, _kind(clause)


def _kind(clause: str) -> str:
    if _REFUSAL.search(clause):
        return "refusal"
    return "about" if _META.search(clause) else "content"


def agreement() -> Agreement:
    """Judge the hand-labelled answers that come with the package.

    The phrases were extended after a first look at these answers (72 of 78 agreed then), so this is agreement on the
    set that the detector was made with, and no estimate for the output of a model.
    """
    file = files("rag_lab.generation") / "abstention_labelled.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    agrees = [detect(row["text"]) == row["label"] for row in rows]
    languages = sorted({row["language"] for row in rows})
    by_language = {
        code: sum(a for a, r in zip(agrees, rows, strict=True) if r["language"] == code)
        / sum(r["language"] == code for r in rows)
        for code in languages
    }
    return Agreement(DETECTOR_VERSION, len(rows), sum(agrees), by_language)
