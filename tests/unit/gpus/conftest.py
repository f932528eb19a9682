from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_nvml import FakeNvml, compiled


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = compiled(tmp_path_factory.mktemp("nvml"))
    if library is None:
        pytest.skip("gcc builds the fake NVML; it is not here")
    return library


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A fake NVML that every child started by this test sees."""
    fake = FakeNvml(nvml_library, tmp_path)
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    return fake
