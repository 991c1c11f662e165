"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The test collections that live beside the project."""
    folder = Path(os.environ.get("RAG_LAB_SHARED", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test collections at {folder}; set RAG_LAB_SHARED")
    return folder


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that write snapshots and caches never touch the user's."""
    if "RAG_LAB_TEST_HOME" not in os.environ:
        os.environ["RAG_LAB_TEST_HOME"] = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("RAG_LAB_HOME", os.environ["RAG_LAB_TEST_HOME"])
