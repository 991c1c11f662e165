"""A small encyclopedia whose articles name one another, some of them restricted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Document, Request
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.publishing import publish
from rag_lab.store import Store
from rag_lab.variants.adaptive import Adaptive
from rag_lab.variants.answer import Assemble, Generate
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.stage import Stage, State
from rag_lab.variants.variant import Variant

ARTICLES = {
    "a01": (
        "Harbour Light (film)",
        "Harbour Light is a 1962 film. It was directed by Mara Lindqvist for Kestrel Studio.",
    ),
    "a02": ("Mara Lindqvist", "Mara Lindqvist was born in Bodo and painted in oil before she turned to pictures."),
    "a03": ("Bodo", "Bodo is a town with 52,000 inhabitants and a cathedral of concrete."),
    "a04": ("Quiet Canal", "Quiet Canal is a 1971 film of 96 minutes that Pim de Vries shot in Delft."),
    "a05": ("Pim de Vries", "Pim de Vries, born in Delft, was a photographer."),
    "a06": ("Night Ferry", "Night Ferry was directed by Mara Lindqvist under the name of Karl Ohm."),
    "a07": ("Karl Ohm", "Karl Ohm is the name that a director used in secret, born of a bet."),
    "a08": ("Kestrel Studio", "Kestrel Studio made documentaries about the Blue Vault."),
    "a09": ("Blue Vault", "The Blue Vault is a cellar that nobody may describe."),
}
RESTRICTED = {"a06", "a07", "a09"}
FILLERS = [f"Paragraph {n} is about pumps, valves and lamps of the plant number {n}." for n in range(30)]


def make_articles() -> list[Document]:
    """The articles, of which `RESTRICTED` are for the group *press*, among thirty paragraphs about something else."""
    made = [
        Document(
            name,
            text,
            title=title,
            tenant="t",
            acl=Acl(groups=("press",)) if name in RESTRICTED else Acl(public=True),
            language="en",
        )
        for name, (title, text) in ARTICLES.items()
    ]
    fillers = [
        Document(f"f{n:02}", text, title=f"plant {n}", tenant="t", acl=Acl(public=True), language="en")
        for n, text in enumerate(FILLERS)
    ]
    return [*made, *fillers]


@pytest.fixture(scope="session")
def library(house: Any, tmp_path_factory: pytest.TempPathFactory, hash_encoder: Any) -> Any:
    """The encyclopedia, as `house`."""
    documents = make_articles()
    snapshot = publish(
        Store(tmp_path_factory.mktemp("library")),
        documents,
        Whole(),
        analyzer="en",
        encoder=hash_encoder,
        factories=["Flat"],
        corpus="library",
    )
    return replace(house, documents=documents, snapshot=snapshot)


@pytest.fixture
def search(library: Any, ask: Callable[..., Request], store: Store) -> Callable[..., State]:
    """Run an adaptive variant on questions; keywords are its settings, `budget` the caps."""

    def run(
        questions: str | Sequence[str],
        budget: dict[str, float] | None = None,
        writer: Any = None,
        generator: Any = None,
        then: Sequence[Stage] = (Assemble(passages=5), Generate()),
        memory: Memory | None = None,
        request: dict[str, Any] | None = None,
        **settings: Any,
    ) -> State:
        texts = [questions] if isinstance(questions, str) else questions
        batch = library.batch([ask(text, number, **(request or {})) for number, text in enumerate(texts)], store)
        batch = replace(batch, writer=writer, generator=generator or batch.generator)
        stage = Adaptive.model_validate({"drift": None} | settings)
        variant = Variant("adaptive", (stage, *then))
        return run_variant(variant, batch, Budget.from_mapping(budget or {}), memory or Memory())

    return run
