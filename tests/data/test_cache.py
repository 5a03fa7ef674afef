"""The cache of decoded images: found again, rebuilt when images change, whole or not at all, built by one process."""

import os
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest
import torch
from made_folders import image_folder, make_folder
from PIL import Image
from refusals import refused

from normexp.data.image_files import cached


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    draw = lambda *_: Image.fromarray(random.integers(0, 256, (9, 7, 3), dtype=np.uint8))  # noqa: E731
    return make_folder(tmp_path / "images", ("cat", "dog"), {"train": 20, "test": 4}, draw, "jpg")


def same(first, other) -> bool:
    pairs = [zip(first.splits[name], other.splits[name], strict=True) for name in ("train", "val", "test")]
    return all(torch.equal(mine, its) for pair in pairs for mine, its in pair)


def test_a_second_run_decodes_nothing_and_reads_the_same(folder, monkeypatch):
    first = image_folder(folder)
    monkeypatch.setattr("normexp.data.image_files.decode", lambda *_: pytest.fail("decoded again"))
    again = image_folder(folder, seed=1)
    assert same(first, again)
    assert again.fingerprint == first.fingerprint


@pytest.mark.parametrize("change", ["add", "remove", "rewrite", "touch"])
def test_it_is_built_anew_where_a_file_changed(change, folder, tmp_path):
    options = {"cache": str(tmp_path / "mine")}
    first = image_folder(folder, **options)
    image = folder / "train" / "cat" / "05.jpg"
    if change == "add":
        Image.new("RGB", (5, 5)).save(image.with_name("new.jpg"))
    elif change == "remove":
        image.unlink()
    elif change == "rewrite":
        Image.new("RGB", (5, 5)).save(image)
    else:
        os.utime(image, ns=(1, 1))
    second = image_folder(folder, **options)
    assert (second.fingerprint == first.fingerprint) is (change == "touch")
    assert len(list((tmp_path / "mine").rglob("pixels.u8"))) == 2


def test_an_archive_reads_as_the_folder_in_it(folder, tmp_path):
    archive = tmp_path / "images.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(folder.rglob("*"), reverse=True):  # in any order
            tar.add(path, path.relative_to(folder.parent), recursive=False)
    assert same(image_folder(archive), image_folder(folder))


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("cut", [900, 4000])
def test_an_archive_that_was_cut_off_is_refused_in_one_line_and_leaves_nothing(kind, cut, folder, tmp_path):
    archive = tmp_path / f"images.tar.{kind}"
    with tarfile.open(archive, f"w:{kind}") as tar:
        tar.add(folder, ".")
    image_folder(archive)
    archive.write_bytes(archive.read_bytes()[:-cut])
    with refused(r"cannot read .*images.tar.* repair or remove it"):
        image_folder(archive, cache=str(tmp_path / "mine"))
    assert not list((tmp_path / "mine").glob("*/"))


def test_one_builds_and_the_others_wait(tmp_path):
    """Each thread opens the lock's file anew, as a process would."""
    begun, found = [], []

    def build(folder):
        begun.append(folder)
        time.sleep(0.3)
        (folder / "whole").write_text("")

    def run():
        folder = cached(str(tmp_path), "key", build)
        found.append(sorted(path.name for path in folder.iterdir()))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["whole"]] * 4
    assert len(begun) == 1


@pytest.mark.integration
def test_a_process_that_is_killed_leaves_nothing_that_is_used(tmp_path):
    code = f"""
import os, signal
from normexp.data.image_files import cached
def build(folder):
    (folder / "half").write_text("")
    os.kill(os.getpid(), signal.SIGKILL)
cached({str(tmp_path)!r}, "key", build)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    folder = cached(str(tmp_path), "key", lambda new: (new / "whole").write_text(""))
    assert sorted(path.name for path in folder.iterdir()) == ["whole"]
