"""Files in a folder where somebody else laid something first."""

import os
import stat

import pytest

from bus import private_files
from bus.errors import ForeignFileError


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_never_made_through_a_link(tmp_path, victim):
    for target in (victim, tmp_path / "nowhere"):
        link = tmp_path / f"link-{target.name}"
        link.symlink_to(target)
        with pytest.raises(FileExistsError):
            private_files.create(link)

    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_replacing_takes_the_links_place_and_leaves_its_target(tmp_path, victim):
    link = tmp_path / "address.json"
    link.symlink_to(victim)
    private_files.replace(link, b"mine")

    assert (link.is_symlink(), link.read_bytes(), mode(link)) == (False, b"mine", 0o600)
    assert victim.read_text() == "precious"
    assert private_files.draft(link) != private_files.draft(link)


def test_a_lock_or_a_log_that_is_a_link_is_refused(tmp_path, victim):
    link = tmp_path / "lock"
    link.symlink_to(victim)
    with pytest.raises(ForeignFileError, match=r"this is a link: remove it: path=.*lock"):
        private_files.descriptor(link)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFileError, match="this is no file"):
        private_files.descriptor(tmp_path / "pipe")

    assert victim.read_text() == "precious"


def test_what_is_extended_is_extended_wherever_it_was_read(tmp_path):
    for line in (b"one\n", b"two\n"):
        with os.fdopen(private_files.descriptor(tmp_path / "log", appends=True), "ab+") as file:
            file.seek(0)
            file.read()
            file.write(line)

    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert mode(tmp_path / "log") == 0o600


@pytest.mark.parametrize("open_to", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_refused_with_the_way_out(tmp_path, open_to):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(open_to)
    with pytest.raises(ForeignFileError, match=rf"chmod go-w {folder}.*{folder}/bursar"):
        private_files.own_folder(folder)
    private_files.own_folder(folder / "bursar")

    assert mode(folder / "bursar") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused_with_the_way_out(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    with pytest.raises(ForeignFileError, match=r"belongs to user 65534.*runs as user 0.*chown"):
        private_files.own_folder(folder)
