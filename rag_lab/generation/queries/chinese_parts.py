"""How Chinese questions are put together: coordination, comparison, nested descriptions."""

from __future__ import annotations

import re

from rag_lab.contracts import Span
from rag_lab.generation.queries.parts import QUOTE, put

DEEPEST = 4

_REFERENCE = r"#\d+|[\ue100-\ue1ff]"
_PERSONS = """
导演 作者 编剧 作曲者 作曲家 主演 男主角 女主角 创始人 创办人 创立者 发明者 发明人 发现者 所有者
总统 总理 首相 主席 董事长 总裁 首席执行官 国王 女王 皇帝 市长 省长 州长 校长 院长 队长 教练
主教练 妻子 丈夫 配偶 母亲 父亲 儿子 女儿 哥哥 弟弟 姐姐 妹妹 祖父 祖母 老师 学生 继任者 前任
设计师 设计者 建筑师 出版者 主持人 演唱者 原唱 冠军
"""
_THINGS = """
首都 省会 首府 出生地 故乡 家乡 总部 母公司 制造商 出品公司 发行商 出版社 母校 所在国 所在城市
主场 官方语言 货币 续集
"""
_PLACES = ("首都", "省会", "首府", "出生地", "故乡", "家乡", "总部")
_PERSON = "|".join(sorted(_PERSONS.split(), key=len, reverse=True))
_RELATION = "|".join(sorted((_PERSONS + " " + _THINGS).split(), key=len, reverse=True))
_OPEN = r"^，。；？！、,;?!的是在和与跟谁哪什么何吗呢及"
_OWNER = rf"(?:[^\W\d_]*[{QUOTE}]|{_REFERENCE}|(?<![#A-Za-z0-9])[{_OPEN}\s#\ue100-\ue1ff]{{1,30}}?)"
_OWNED = re.compile(rf"(?P<whose>{_OWNER})的?(?P<what>{_RELATION})(?!们|之一)")
_VERBS = """
执导 创办 创立 创建 成立 出演 饰演 扮演 主演 撰写 创作 编写 写 发明 举办 主办 承办 获得 赢得
荣获 担任 出生于 位于 毕业于 拥有 演唱 设计 建造 发现 提出 领导 击败 收购 生产 制作 出版 发行
开发 出品
"""
_VERB = "|".join(sorted(_VERBS.split(), key=len, reverse=True))
_KINDS = """
人 导演 演员 女演员 男演员 作家 歌手 科学家 球员 教练 总统 皇帝 国家 城市 省份 省 公司 企业
大学 学校 电影 影片 电视剧 小说 书 作品 歌曲 专辑 球队 俱乐部 组织 机构 河流 岛屿 山 建筑
游戏 产品 品牌
"""
_KIND = "|".join(sorted(_KINDS.split(), key=len, reverse=True))
_RELATIVE = re.compile(
    rf"(?P<clause>(?:由)?(?P<by>[^，。；？！、,;?!的是]{{0,20}}?)(?P<verb>{_VERB})(?:了|过)?(?P<object>[^，。；？！,;?!的]{{0,30}}?))的(?P<kind>那[个位部家座])?"
    rf"(?P<noun>{_KIND})"
)
_WHOLE = re.compile(
    rf"(?:请问)?(?:谁|哪.{{0,2}}|什么)?(?:是)?(?:{_REFERENCE})(?:是|叫|为)?(?:谁|什么|什么名字|哪.{{0,4}})?"
)
_COUNT = {
    **dict.fromkeys(("国家", "城市", "省份", "省", "组织", "机构", "俱乐部", "游戏", "产品", "品牌", "岛屿"), "个"),
    **dict.fromkeys(("公司", "企业"), "家"),
    **dict.fromkeys(("大学", "学校"), "所"),
    **dict.fromkeys(("电影", "影片", "电视剧", "小说", "作品"), "部"),
    **dict.fromkeys(("书",), "本"),
    **dict.fromkeys(("歌曲",), "首"),
    **dict.fromkeys(("专辑",), "张"),
    **dict.fromkeys(("球队",), "支"),
    **dict.fromkeys(("河流",), "条"),
    **dict.fromkeys(("山", "建筑"), "座"),
}


def nested(question: str) -> list[str]:
    """A question about something that is described, after one that asks what that is; [] where nothing is described."""
    text = question.rstrip(" ?？。.!！")
    parts: list[str] = []
    while len(parts) < DEEPEST and (found := _innermost(text)):
        span, asks = found
        rest = put(text, span, len(parts) + 1)
        if _WHOLE.fullmatch(rest):
            break
        parts.append(asks)
        text = rest
    return [*parts, text + "？"] if parts else []


def _innermost(text: str) -> tuple[Span, str] | None:
    """The span of the first description, and a question for what it describes. A clause goes before a relation."""
    prefix = re.match("请问|那么|你知道|告诉我", text)
    start = prefix.end() if prefix else 0
    if match := _RELATIVE.match(text, start):
        noun = match["noun"]
        which = "谁" if noun not in _COUNT else f"哪{_COUNT[noun]}{noun}"
        if match["object"]:
            by = match["by"] + match["verb"] + match["clause"].split(match["verb"], 1)[1].removeprefix("了")
            return match.span(), f"{which}{by}？"
        if match["by"]:
            return match.span(), f"{match['by'].removeprefix('由')}{match['verb']}的{noun}是{which}？"
    if match := _OWNED.search(text, start):
        asks = "谁" if re.fullmatch(_PERSON, match["what"]) else "哪里" if match["what"] in _PLACES else "什么"
        return match.span(), f"{match['whose']}的{match['what']}是{asks}？"
    return None


_ASKS = re.compile("谁|哪|什么|何|多少|几|怎|吗|是否|是不是|为什么|如何|多[大高长远久重]")
_PIECES = re.compile("[，,；;]?(?:以及|并且|而且|同时|还有|另外|那么)|[？?]\\s*|[，,；;]")
_PRONOUN = re.compile("他们|她们|它们|他|她|它|其(?!他|它|中|实|余)")
_ITEM = rf"[{QUOTE}]|[^，。；？！,;?!的\s]{{1,20}}?"
_PAIR = rf"(?P<one>{_ITEM})(?:和|与|跟|同|、|还是)(?P<other>{_ITEM})"
_WHICH = rf"(?:谁|哪一?[个位部家座种本条支所首]?(?:{_KIND})?)的?"
_BETTER = re.compile(
    rf"^(?:请问)?(?:在)?{_PAIR}(?:相比|之间|中|两者|两人|两个|这?两[个位部家座]\S?)?[，,]?{_WHICH}(?P<rest>[^谁哪]+)$"
)
_OR = re.compile(rf"^(?:请问)?{_WHICH}(?P<rest>[^，,]+)[，,]{_PAIR}$")
_BOTH = re.compile(rf"^(?:请问)?{_PAIR}(?:是否|是不是)?(?:都|均)(?:是否|是不是)?(?P<rest>.+?)吗?$")
_SAME = re.compile(rf"^(?:请问)?{_PAIR}的(?P<noun>[^的，,]{{1,10}}?)(?:是否|是不是)?(?:相同|一样|一致)吗?$")
_DIFFERENCE = re.compile(
    rf"^(?:请问)?(?:比较)?{_PAIR}(?:之间)?(?:的|有什么|有何|有哪些)*(?:区别|不同|差异|异同|共同点|关系)(?:是什么|在哪里)?$"
)
_MEASURES = (
    (
        r"(?:出生|生)得?(?:更|最|较)?早|更?早出生|(?:更|年龄更|年纪更|比较)?年[长轻]|年[龄纪](?:更|较|比较)?[大小]",
        "{}什么时候出生？",
    ),
    (
        r"(?P<verb>[^更最较早晚先后]{1,6})得?(?:更|最|较)?[早晚]|(?:更|最|较|首?)[早晚先](?P<verb2>[^更最较早晚]{1,6})",
        "{}什么时候{verb}？",
    ),
    (r"(?P<noun>[^更最较]{0,6})(?:更|最|较|比较)(?P<adjective>[大高长远久重深宽])", "{}{noun}有多{adjective}？"),
    (r"(?P<noun>[^更最较]{1,6})(?:更|最|较|比较)(?:多|少)", "{}的{noun}是多少？"),
)


def split(question: str) -> list[str]:
    """Questions that stand beside each other in one: several clauses that ask, things compared."""
    text = question.rstrip(" ?？。.!！")
    return _compared(text) or _coordinated(text)


def _coordinated(text: str) -> list[str]:
    pieces = [piece.strip() for piece in _PIECES.split(text) if piece.strip()]
    if len(pieces) < 2 or not all(_ASKS.search(piece) for piece in pieces):
        return []
    first = pieces[0].removeprefix("请问")
    means = "#1" if re.search("^(?:谁|哪)|是谁$|是哪", first) else subject(first)
    parts = [first] + [_PRONOUN.sub(means, piece) if means else piece for piece in pieces[1:]]
    if means and means != "#1":
        # A clause without a subject goes on about that of the first one.
        parts = [part if means in part else _joined(means, part) for part in parts]
    return [part + "？" for part in parts]


def _joined(about: str, rest: str) -> str:
    """A subject and what is said of it, apart where they would run into one word."""
    return about + " " * ((about[-1] + rest[0]).isascii()) + rest


def subject(piece: str) -> str:
    """What stands before the first verb-like word of a question, as far as that can be told."""
    match = re.match(
        rf"(?P<name>[{QUOTE}]|[^的是在于由什哪谁何几多怎有,，]{{2,20}}?)(?:的|是|在|于|由|什么|哪|谁|何|几|多|怎|有)",
        piece,
    )
    return match["name"] if match else ""


def _compared(text: str) -> list[str]:
    if match := _SAME.match(text):
        return [f"{name}的{match['noun']}是什么？" for name in (match["one"], match["other"])]
    if match := _DIFFERENCE.match(text):
        return [f"{name}是什么？" for name in (match["one"], match["other"])]
    if match := _BETTER.match(text) or _OR.match(text):
        return [_measured(match["rest"], name) for name in (match["one"], match["other"])]
    if match := _BOTH.match(text):
        return [_joined(name, match["rest"]) + "吗？" for name in (match["one"], match["other"])]
    return []


def _measured(rest: str, name: str) -> str:
    """What a comparison asks of one of the things."""
    for pattern, asks in _MEASURES:
        if match := re.fullmatch(pattern, rest):
            groups = {key.rstrip("2"): value for key, value in match.groupdict(default="").items() if value}
            return asks.format(name, **{"verb": "", "noun": "", "adjective": "", **groups})
    return _joined(name, rest) + "？"
