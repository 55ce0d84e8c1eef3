"""python/model_packages/launch.py selects the Python that runs a model.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from model_packages.install import InstallError
from model_packages.launch import Settings, choose


def settings(model_python: str | None) -> Settings:
    return Settings(
        stubs="/nonexistent",
        server_python=sys.executable,
        model_python=model_python,
        uv="/nonexistent/uv",
        install_variables={},
    )


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))


def test_no_python_that_numpy_1_has_a_build_for(tmp_path: Path) -> None:
    with pytest.raises(
        InstallError,
        match=r"need Python 3\.10 to 3\.12 with its shared library.*put one on PATH, or set EXECUTION_ENV_PATH",
    ):
        choose(settings(None), tmp_path)


def test_an_installer_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InstallError, match=r"cannot install the packages of \S+/requirements\.txt: .*/nonexistent/uv"):
        choose(settings(sys.executable), tmp_path)
    assert list(tmp_path.glob("triton-serving/*/.complete")) == []


def test_an_environment_of_another_python_than_the_server_s_has_numpy_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(
        InstallError, match=r"the environment of EXECUTION_ENV_PATH has (no NumPy|NumPy 2\S+), and .* needs NumPy 1"
    ):
        choose(settings(None), tmp_path)
