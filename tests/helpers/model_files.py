"""Files of compiled models, damaged, or rewritten with checksums that are right."""

import json
import zlib

import pytest

import onednn_graph_py as og


def changed(contents: bytes, place: int) -> bytes:
    made = bytearray(contents)
    made[place] ^= 0x10
    return bytes(made)


# What is done to a file, and what `og.load` says of it.
DAMAGED = [
    *((lambda c, left=left: c[:left], "no file of a model: ") for left in (23, 30, 200, -1, -500)),
    *(
        (lambda c, at=at: changed(c, at), "was changed|its header has|no file of a model")
        for at in (40, 300, -3, -3130)
    ),
    (lambda c: c.replace(b"model 1\n", b"model 2\n", 1), "its format is b'onednn"),
]


def refused(folder, contents, match):
    file = folder / "damaged.og"
    file.write_bytes(contents)
    with pytest.raises(og.OneDNNError, match=match) as caught:
        og.load(file)
    assert str(file) in str(caught.value)


def rewritten(contents, change, first=None):
    """The file with another header, and another first constant."""
    format_line, line, rest = contents.split(b"\n", 2)
    length = int(line.split()[0])
    header = json.loads(rest[:length])
    at = len(contents) - len(rest) + length + 1
    stored = []
    for size, _ in header["constants"]:
        at += -at % 64
        stored.append(contents[at : at + size])
        at += size
    if first is not None:
        stored[0] = first
        header["graph"]["constants"][0][0] = [len(first)]
        header["constants"][0] = [len(first), zlib.crc32(first)]
    change(header)
    text = json.dumps(header).encode()
    made = b"%s\n%d %d\n%s\n" % (format_line, len(text), zlib.crc32(text), text)
    for part in stored:
        made += b"\0" * (-len(made) % 64) + part
    return made
