"""Language by script."""

import pytest

from rag_lab.datasets.languages import language_of


@pytest.mark.parametrize(
    "text, language",
    [
        ("Travel allowance is 500.", "en"),
        ("naïve café", "en"),
        ("差旅补贴为每天五百元。", "zh"),
        ("使用 Kubernetes 部署 PostgreSQL 服务的操作步骤与注意事项", "zh"),
        ("The Chinese word for allowance is 补贴, and the form is called 报销单.", "en"),
        ("東京は日本の首都です。", "ja"),
        ("서울은 대한민국의 수도이다.", "ko"),
        ("Москва - столица России.", "und"),
        ("500 + 600 = 1100", ""),
        ("。，、", ""),
        ("", ""),
    ],
)
def test_language_of(text, language):
    assert language_of(text) == language
