"""What a bad disk does to the store of an embedded server that is stopped: its last block, cut short or with one bit flipped."""


def cut(folder, size=10):
    """The block without its last bytes."""
    block = _block(folder)
    block.write_bytes(block.read_bytes()[:-size])


def half(folder):
    """Half of the block."""
    cut(folder, _block(folder).stat().st_size // 2)


def flip(folder, mark=b"ce-time"):
    """One bit flipped in the last message."""
    block = _block(folder)
    raw = bytearray(block.read_bytes())
    raw[raw.rindex(mark)] ^= 1
    block.write_bytes(raw)


def _block(folder):
    return max(folder.rglob("*.blk"))


DAMAGES = {"cut short": cut, "cut in half": half, "a bit flipped": flip}
