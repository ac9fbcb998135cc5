"""What `import desp` gives, and how little it costs."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import desp


def test_importing_the_package_does_not_load_torch() -> None:
    code = "import sys, desp, desp.settings, desp.recipes, desp.results; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@pytest.mark.parametrize("name", desp.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(desp, name)
    assert value is not None
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__
        assert name in dir(desp)


def test_names_are_complete_and_sorted() -> None:
    assert set(desp.__all__) == {*desp._HOMES, "__version__"}
    assert sorted(desp.__all__) == list(desp.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'SetPredicter'"):
        desp.SetPredicter  # noqa: B018 - the access itself is the test


def test_version_is_the_installed_one() -> None:
    assert desp.__version__ == version("desp")


def test_errors_have_one_root() -> None:
    from desp import errors

    found = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)]
    assert len(found) > 5
    assert all(issubclass(item, desp.DespError) for item in found)
