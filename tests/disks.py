"""A disk that a test can fill."""

import errno
import subprocess
from contextlib import contextmanager


@contextmanager
def small_disk(folder, mib):
    """A file system of its own, of so many MiB; where nobody may mount one, the folder, which is never full. Gives which."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file):
    """Write ``file`` until nothing more can be written."""
    with file.open("wb", buffering=0) as opened:
        for size in (1 << 20, 1 << 12):
            try:
                while opened.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
