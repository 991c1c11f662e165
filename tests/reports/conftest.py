import pytest
from example_results import example, make_hostile_worst

from rag_lab.results import Results


@pytest.fixture
def results() -> Results:
    return example()


@pytest.fixture
def sweep() -> Results:
    return example(budgets=("tight", "roomy"))


@pytest.fixture
def hostile() -> Results:
    return make_hostile_worst(example(n=60))
