"""Kernels and their switches."""

import pickle
from pathlib import Path

import pytest

import pageblock
from pageblock import Kernel


def test_kernels_are_those_of_the_program() -> None:
    names = [kernel.name for kernel in pageblock.kernels()]
    assert names[0] == "linux-3.10"
    assert "linux-7.3" in names
    assert "debian-6.12" in names


def test_a_switch_is_an_attribute_with_its_documentation() -> None:
    kernel = Kernel("linux-4.20")
    assert kernel.nofragment == "off"
    assert kernel.split_large is False
    assert isinstance(kernel.min_free_kbytes, int)
    assert isinstance(kernel.fallback_pick, str)
    documented = [row["switch"] for row in pageblock.switches().to_dicts() if getattr(Kernel, row["switch"]).__doc__]
    assert len(documented) == len(pageblock.switches())


def test_a_kernel_is_replaced_not_changed() -> None:
    kernel = Kernel("linux-6.9", nofragment=False)
    assert kernel.name == "linux-6.9,nofragment=off"
    assert kernel.replace(nofragment="defrag_mode").name == "linux-6.9,nofragment=defrag_mode"
    assert kernel.nofragment == "off"
    with pytest.raises(AttributeError):
        kernel.nofragment = "on"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_the_difference_says_what_each_switch_decides() -> None:
    rows = Kernel("linux-4.20").diff("linux-5.0").to_dicts()
    row = next(row for row in rows if row["switch"] == "slab_min_scan")
    assert (row["a"], row["b"]) == ("on", "off")
    assert "shrinker" in row["decides"]


def test_a_kernel_survives_a_file_and_a_pickle(tmp_path: Path) -> None:
    kernel = Kernel("linux-6.12", min_free_kbytes=70000)
    file = tmp_path / "mine.toml"
    file.write_text(kernel.to_toml(), encoding="utf-8")
    assert Kernel(file).switches() == kernel.switches()
    assert Kernel(file).name == "mine"
    again = pickle.loads(pickle.dumps(Kernel(file)))
    assert again == Kernel(file)


def test_unknown_names_say_what_exists() -> None:
    with pytest.raises(pageblock.Error, match="unknown kernel 'linux-6.11'; 6.11 behaves as linux-6.10"):
        Kernel("linux-6.11")
    with pytest.raises(pageblock.Error, match="unknown switch 'nofragmant'; the most similar is nofragment"):
        Kernel("linux-6.9,nofragmant=on")
    with pytest.raises(pageblock.Error, match="switch 'nofragment' has no value 'perhaps'; one of"):
        Kernel("linux-6.9,nofragment=perhaps")
    with pytest.raises(AttributeError, match="unknown switch 'nofragmant'; the most similar is nofragment"):
        _ = Kernel("linux-6.9").nofragmant  # type: ignore[attr-defined]  # pyright: ignore


def test_the_stub_has_every_switch() -> None:
    import importlib.util

    path = Path(__file__).parents[1] / "make_stub.py"
    spec = importlib.util.spec_from_file_location("make_stub", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text(encoding="utf-8") == module.stub(), "run crates/python/make_stub.py"
