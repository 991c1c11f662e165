"""What a run needs before its first variant: data, snapshot, encoder, calibrated generator, authorised requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rag_lab import datasets, metrics
from rag_lab.budgets import Prices
from rag_lab.contracts import (
    CacheUse,
    Calibrated,
    Document,
    Encoder,
    Generator,
    Question,
    RagLabError,
    Writer,
)
from rag_lab.corpus.chunking import Chunker
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.policies import BOOK, PolicyBook
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.segment import document_digest
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.definition import MAIN, Experiment, SnapshotSettings
from rag_lab.generation import load_generator
from rag_lab.generation.support import DEVELOPED_ON
from rag_lab.metrics.answers import check_answers
from rag_lab.metrics.ranking import check_overlap
from rag_lab.progress import Progress
from rag_lab.provenance import code_digest, environment
from rag_lab.requesting import gold_rows, requests_of
from rag_lab.retrieval import late, sparse
from rag_lab.retrieval.encoders import load_encoder
from rag_lab.retrieval.late import LateEncoder
from rag_lab.retrieval.sparse import SparseEncoder
from rag_lab.store import Store, digest
from rag_lab.thresholds import choose_threshold
from rag_lab.training import learned, training_part, training_splits
from rag_lab.variants import Variant, is_bound, place
from rag_lab.variants.compress import Compress
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.query_vectors import (
    QuerySparseVectors,
    QueryTokenVectors,
    QueryVectors,
    query_sparse_vectors,
    query_token_vectors,
    query_vectors,
)
from rag_lab.variants.stage import Batch

if TYPE_CHECKING:
    from rag_lab.corpus.held import Held

Vectors = TypeVar("Vectors", QueryVectors, QueryTokenVectors, QuerySparseVectors)


@dataclass(eq=False)
class Preparation:
    """What one run derives from its definition, each thing once and only when it is needed.

    `warnings` collects what a reader of the results should know; `calibration` is set when a threshold was chosen, and
    `lessons` when stages have learned; `embedded` says for each snapshot that was published with vectors how many of
    its chunks had one already.
    """

    definition: Experiment
    store: Store
    bars: Progress

    def __post_init__(self) -> None:
        self.started = datetime.now(UTC)
        self.warnings: list[str] = []
        self.embedded: list[CacheUse] = []
        self.calibration: dict[str, Any] | None = None
        self.lessons: list[dict[str, Any]] = []
        self.label = ""
        self.held = self._hold()
        self.settings = self._settings()
        placed = place(self.definition.variant_definitions(), list(self.settings), bool(self.definition.snapshots))
        self.variants = {name: one.variant for name, one in placed.items()}
        self.snapshot_of = {name: one.snapshot for name, one in placed.items()}
        if self.held:
            needed = (self.lucene(MAIN), self.factories(MAIN), self.late_indexes(MAIN), self.sparse_models(MAIN))
            self.held.check_indexes(*needed)
        self._check_writer()
        self.baseline = self._baseline()
        self.budgets = self.definition.budgets()
        self.prices = Prices.load(Path(self.definition.prices) if self.definition.prices else None)
        self.metric_names = list(self.definition.metrics or metrics.DEFAULT)
        for name in self.metric_names:
            metrics.metric(name)

    def _hold(self) -> Held | None:
        """The corpus that the experiment runs on, None where it is made from the dataset's documents."""
        if self.definition.corpus is None:
            return None
        from rag_lab.corpus.held import Held

        return Held.hold(self.store, self.definition.corpus, self.definition.generation)

    def _settings(self) -> dict[str, SnapshotSettings]:
        """Settings of each snapshot by name; those of a corpus are its own."""
        if self.held is None:
            return self.definition.snapshot_settings()
        built = self.held.row.settings
        settings = {name: built[name] for name in ("chunker", "encoder", "colbert") if name in built}
        return {MAIN: SnapshotSettings(**settings)}

    @property
    def corpus(self) -> str:
        """The name under which documents are denied."""
        return self.definition.corpus or self.dataset.name

    @property
    def documents(self) -> list[Document]:
        """What is searched: the documents of the corpus, or of the dataset."""
        return self.held.documents if self.held else self.dataset.documents

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of every document that is searched, by id."""
        return {document.document_id: document.text for document in self.documents}

    def _check_writer(self) -> None:
        """Refuse stages that ask a language model where the experiment names none."""
        for name, variant in self.variants.items():
            stage = next((stage for stage in variant.stages if stage.writes), None)
            if stage is not None and self.definition.writer is None:
                raise RagLabError(
                    f"variants.{name}.{stage.name}: asks a language model, and the experiment names none; "
                    "set 'writer', such as 'writer: smollm2'"
                )

    def _baseline(self) -> str:
        given = self.definition.baseline
        if given is not None:
            if given not in self.variants:
                raise RagLabError(f"baseline: '{given}' is not among the variants ({', '.join(self.variants)})")
            return given
        return next((name for name in self.variants if not is_bound(name)), next(iter(self.variants)))

    @cached_property
    def dataset(self) -> datasets.Dataset:
        """Documents, questions and judgments."""
        calibration = self.definition.generator.calibration if self.calibrates else 0
        found = self._load(self.definition.split, self.definition.limit, calibration)
        if not found.questions:
            raise RagLabError(f"dataset {found.name}: split '{found.split}' has no questions")
        check_answers(found.questions)
        judged = {document for judgments in found.qrels.values() for document in judgments}
        searched = self.held.known if self.held else [d.document_id for d in found.documents]
        check_overlap(judged, searched, f"qrels of {found.name}")
        self.warnings += self.held.check_texts(found) if self.held else []
        self.warnings += found.integrity.warnings()
        strangers = sum(question.principal is None for question in found.questions)
        if found.rights == "declared" and strangers:
            self.warnings.append(f"{strangers} questions name no principal (tenant, groups): they may read nothing")
        if self.definition.generator.name == "extractive" and found.name in DEVELOPED_ON:
            self.warnings.append(
                f"the extractive reader was developed with questions of {found.name} in view: how well it answers and "
                "abstains here is not held out; the retrieval figures are"
            )
        compressing = [name for name, v in self.variants.items() if any(isinstance(s, Compress) for s in v.stages)]
        if compressing and found.name in DEVELOPED_ON:
            self.warnings.append(
                f"'compress' chooses sentences by rules that were developed with questions of {found.name} in view: "
                f"what it keeps here ({', '.join(compressing)}) is not held out"
            )
        return found

    def _load(self, split: str, limit: int | None = None, calibration: int = 0) -> datasets.Dataset:
        """A split of the dataset."""
        definition, options = self.definition, self.definition.dataset_options.model_dump()
        return datasets.load(definition.dataset, split, limit, definition.seed, calibration=calibration, **options)

    @cached_property
    def training(self) -> dict[str, datasets.Dataset]:
        """The splits that stages learn on. Raises RagLabError where one is not there, or is scored."""
        splits = training_splits(self.variants)
        return {split: training_part(self.dataset, split, place, self._load) for split, place in splits.items()}

    @cached_property
    def trained(self) -> dict[str, Variant]:
        """The variants, whose stages have learned what they were to learn; `lessons` says what that was."""
        made = {}
        for name, variant in self.variants.items():
            self.label = f"{name} learns "
            asked = partial(self._ask, self.snapshot_of[name])
            made[name], lessons = learned(variant, self.training, asked, self.budgets[MAIN])
            self.lessons += lessons
        self.label = ""
        return made

    def _ask(self, snapshot: str, part: datasets.Dataset) -> Batch:
        """The questions of a part of the dataset on a snapshot."""
        return self.batch(part.questions, self.uncalibrated, snapshot)

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        """The encoder of each snapshot; several with one encoder share it."""
        names = {name: self._model(given.encoder) for name, given in self.settings.items()}
        loaded = {name: load_encoder(name) for name in dict.fromkeys(names.values())}
        return {snapshot: loaded[name] for snapshot, name in names.items()}

    @cached_property
    def late_encoders(self) -> dict[str, LateEncoder]:
        """The late-interaction encoder of each snapshot that is searched by one."""
        searched = {name: given for name, given in self.settings.items() if self.late_indexes(name)}
        names = {name: self._model(given.colbert) for name, given in searched.items()}
        loaded = {name: late.load_late_encoder(name) for name in dict.fromkeys(names.values())}
        return {snapshot: loaded[name] for snapshot, name in names.items()}

    @cached_property
    def sparse_encoders(self) -> dict[str, SparseEncoder]:
        """The learned sparse encoders that variants name."""
        names = dict.fromkeys(model for name in self.settings for model in self.sparse_models(name))
        return {name: sparse.load_sparse_encoder(name) for name in names}

    def _model(self, name: str) -> str:
        """The embedded model that "auto" stands for, or the one that is named."""
        auto = "minilm" if set(self.dataset.languages) <= {"en"} else "multilingual-e5"
        return auto if name == "auto" else name

    @cached_property
    def chunkers(self) -> dict[str, Chunker]:
        """The chunker of each snapshot, with its context prefix."""
        return {name: self._chunker(given) for name, given in self.settings.items()}

    def _chunker(self, settings: SnapshotSettings) -> Chunker:
        prefix = settings.context_prefix
        if prefix is None:
            return settings.chunker
        return prefix.on(settings.chunker, self.store, "snapshot.context_prefix", self.bars.show)

    def searching(self, snapshot: str) -> list[Variant]:
        """The variants that search a snapshot."""
        return [variant for name, variant in self.variants.items() if self.snapshot_of[name] == snapshot]

    def encodes(self, snapshot: str) -> bool:
        """Whether a variant on the snapshot asks its encoder."""
        return bool(self.factories(snapshot)) or any("encoder" in variant.needs for variant in self.searching(snapshot))

    def lucene(self, snapshot: str) -> bool:
        """Whether a snapshot needs a Lucene index of its texts."""
        return any(variant.needs_lucene for variant in self.searching(snapshot))

    def factories(self, snapshot: str) -> tuple[str, ...]:
        """The FAISS indexes that a snapshot needs."""
        return tuple(dict.fromkeys(f for variant in self.searching(snapshot) for f in variant.factories))

    def late_indexes(self, snapshot: str) -> tuple[str, ...]:
        """The late-interaction indexes that a snapshot needs."""
        return tuple(dict.fromkeys(kind for variant in self.searching(snapshot) for kind in variant.late_indexes))

    def sparse_models(self, snapshot: str) -> tuple[str, ...]:
        """The models whose weighted terms a snapshot needs."""
        return tuple(dict.fromkeys(model for variant in self.searching(snapshot) for model in variant.sparse_models))

    @cached_property
    def book(self) -> PolicyBook:
        """Who the readers of each policy are."""
        if self.held:
            return self.held.corpus.policies
        path = self.dataset.policies
        book = PolicyBook() if path is None else PolicyBook.load(path, self.dataset.zone)
        acls = {acl for d in self.dataset.documents for acl in (d.acl, *(section.acl for section in d.sections))}
        unknown = sorted({acl.policy for acl in acls if acl.policy} - {policy.policy_id for policy in book.policies})
        if unknown:
            named = ", ".join(unknown[:5])
            self.warnings.append(f"documents name policies that are in no {BOOK} and admit nobody: {named}")
        return book

    def denied(self) -> frozenset[str]:
        """The documents that nobody may read."""
        if self.held:
            return self.held.snapshot.denied()
        denials = DenyList(self.store).of(self.corpus)
        named = [document for document in self.dataset.documents if document.document_id in denials.in_force]
        return denials.held({document.document_id: document_digest(document) for document in named})

    @property
    def key(self) -> str:
        """All that decides the results: equal keys have equal figures. It changes when documents are denied.

        The policy book is the one that was read when the run began: another one holds from the next request on.
        """
        return digest(self._settled, self.book.version, sorted(self.denied()))

    @cached_property
    def _settled(self) -> str:
        """The part of the key that stays as it is while a run goes on."""
        using = [
            name
            for name, given in self.settings.items()
            if self.encodes(name) or given.chunker.counts_tokens or self.definition.snapshots
        ]
        return digest(
            self.definition.model_dump(mode="json"),
            self.dataset.fingerprint,
            {split: part.fingerprint for split, part in self.training.items()},
            self.held.snapshot.id if self.held else "",
            {name: variant.to_yaml() for name, variant in self.variants.items()},
            {name: self.encoders[name].version for name in using},
            {name: [encoder.name, encoder.version] for name, encoder in self.late_encoders.items()},
            {name: encoder.version for name, encoder in self.sparse_encoders.items()},
            {name: chunker.version for name, chunker in self.chunkers.items()},
            self.uncalibrated.version,
            self.writer.version if self.writer else "",
            self.models,
            [self.prices.compute_usd_per_hour, repr(self.prices.models)],
            code_digest(),
            environment()["packages"],
        )

    @cached_property
    def snapshots(self) -> dict[str, Snapshot]:
        """The snapshots by name, each with what its variants search."""
        made = {}
        self.bars.update("snapshot", 0, len(self.settings))
        for number, name in enumerate(self.settings, 1):
            made[name] = self._publish(name)
            self.bars.update("snapshot", number, len(self.settings))
        return made

    def _publish(self, name: str) -> Snapshot:
        settings, factories = self.settings[name], self.factories(name)
        late_encoder = self.late_encoders.get(name)
        if factories and (strange := set(self.dataset.languages) - self.encoders[name].languages):
            self.warnings.append(
                f"encoder {self.encoders[name].name} does not know the corpus language {', '.join(sorted(strange))}: "
                "dense scores say little; use encoder multilingual-e5"
            )
        if late_encoder and (strange := set(self.dataset.languages) - late_encoder.languages):
            self.warnings.append(
                f"colbert encoder {late_encoder.name} does not know the corpus language {', '.join(sorted(strange))}: "
                "its scores say little; use colbert multilingual-e5"
            )
        if self.held:
            return self.held.snapshot
        return publish(
            self.store,
            self.documents,
            self.chunkers[name],
            token_encoder=self.encoders[name] if settings.chunker.counts_tokens else None,
            analyzer=self._analyzer(settings) if self.lucene(name) else None,
            encoder=self.encoders[name] if factories else None,
            factories=factories,
            late=late_encoder,
            late_indexes=self.late_indexes(name),
            sparse=[self.sparse_encoders[model] for model in self.sparse_models(name)],
            progress=self.bars.show,
            corpus=self.corpus,
            on_use=self.embedded.append,
        )

    def _analyzer(self, settings: SnapshotSettings) -> str:
        if settings.analyzer != "auto":
            return settings.analyzer
        languages = set(self.dataset.languages)
        return languages.pop() if languages in ({"en"}, {"zh"}) else "multilingual"

    @cached_property
    def loaded(self) -> Generator:
        """The generator as it is loaded; without generation, the extractive reader's tokenizer counts tokens."""
        settings = self.definition.generator
        return load_generator("extractive") if not self.generates else load_generator(settings.name, **settings.options)

    @cached_property
    def writer(self) -> Writer | None:
        """Who writes queries and grades: a language model, shared with the generator if they are the same."""
        settings, answers = self.definition.writer, self.definition.generator
        if settings is None:
            return None
        same = self.generates and (settings.name, settings.options) == (answers.name, answers.options)
        found = self.loaded if same else load_generator(settings.name, **settings.options)
        if not isinstance(found, Writer):
            raise RagLabError(
                f"writer: '{settings.name}' writes no text of its own; name a language model such as smollm2"
            )
        return found

    @cached_property
    def models(self) -> dict[str, str]:
        """Versions of the models that stages name. Raises RagLabError, before anything runs, where one is none."""
        stages = (stage for variant in self.variants.values() for stage in variant.stages)
        return {name: version for stage in stages for name, version in stage.models().items()}

    @property
    def generates(self) -> bool:
        """Whether the experiment asks for answers."""
        return self.definition.generator.name != "none"

    @property
    def calibrates(self) -> bool:
        """Whether the generator abstains by a threshold that has to be chosen."""
        given = self.definition.generator.options.get("threshold")
        return self.generates and isinstance(self.loaded, Calibrated) and given is None

    @cached_property
    def uncalibrated(self) -> Generator:
        """The generator, with words weighed by the whole corpus if it is one that weighs them.

        So a confidence means the same in every context, and one threshold serves all variants.
        """
        if not (self.calibrates and isinstance(self.loaded, Calibrated)):
            return self.loaded
        denied = self.denied()
        readable = (document for document in self.documents if document.document_id not in denied)
        return self.loaded.with_background([document.text for document in readable])

    @cached_property
    def generator(self) -> Generator:
        """The generator, calibrated on questions that are not scored when it abstains by a threshold."""
        reader = self.uncalibrated
        threshold = self._threshold(reader) if self.calibrates else None
        return reader.with_threshold(threshold) if isinstance(reader, Calibrated) and threshold is not None else reader

    def _threshold(self, reader: Generator) -> float | None:
        """Choose the threshold on the contexts that the competing variants give the calibration questions."""
        questions = [q for q in self.dataset.calibration if q.answers or q.answerable is False]
        reading = [v for name, v in self.trained.items() if v.reads and not is_bound(name, self.baseline)]
        asked = reading if questions else []
        names = dict.fromkeys(self.snapshot_of[variant.name] for variant in asked)
        batches, memory = {name: self.batch(questions, reader, name) for name in names}, Memory()
        states = {
            variant.name: run_variant(variant, batches[self.snapshot_of[variant.name]], self.budgets[MAIN], memory)
            for variant in asked
        }
        chosen, warnings = choose_threshold(questions, states)
        self.warnings += warnings
        if chosen is None:
            return None
        self.calibration = {
            "reader": reader.name,
            "threshold": chosen.value,
            "questions": len(questions),
            "variants": list(states),
            "rule": chosen.objective,
            "score": chosen.score,
            "auc": chosen.auc,
        }
        return chosen.value

    def batch(self, questions: Sequence[Question], generator: Generator, name: str) -> Batch:
        """The questions as authorised requests on the snapshot of that name."""
        requests = requests_of(questions, self.dataset, self.definition, self.book.version)
        snapshot, encoder = self.snapshots[name], cache(lambda: self.encoders[name])
        vectors = _once(lambda texts: query_vectors(self.store, encoder(), texts))
        late_encoder = cache(lambda: self.late_encoders[name])
        tokens = _once(lambda texts: query_token_vectors(self.store, late_encoder(), texts))
        weighed = cache(lambda model: _once(partial(query_sparse_vectors, self.store, self.sparse_encoders[model])))
        return Batch(
            requests=requests,
            gold=[gold_rows(snapshot.chunks, question) for question in questions],
            snapshot=snapshot,
            book=self.book,
            scopes=snapshot.scopes(requests, self.book),
            generator=generator,
            generates=self.generates,
            prices=self.prices,
            store=self.store,
            encoder=encoder,
            query_vectors=vectors,
            progress=lambda stage, done, total: self.bars.update(f"{self.label}{stage}", done, total),
            writer=self.writer,
            late_encoder=late_encoder,
            token_vectors=tokens,
            sparse_encoder=lambda model: self.sparse_encoders[model],
            sparse_vectors=lambda model, texts: weighed(model)(texts),
            texts=lambda: self.texts,
        )


def _once(make: Callable[[Sequence[str]], Vectors]) -> Callable[[Sequence[str]], Vectors]:
    """The same vectors for the same texts, which the second time are known."""
    made: dict[tuple[str, ...], Vectors] = {}

    def get(texts: Sequence[str]) -> Vectors:
        key = tuple(texts)
        if key in made:
            return made[key]._replace(cached=True)
        return made.setdefault(key, make(texts))

    return get
