"""What is read from files that anybody may have written: limits, and errors of one type only.

test_json_fuzz.py, test_json_errors.py and test_onnx_untrusted.py are about graphs and models.
"""

import ast
import contextlib
import copy
import ctypes
import grp
import json
import os
import pwd
import re
import struct
import time
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_graph_py as og
from onednn_graph_py import export, serialization
from onednn_graph_py.base.text.owners import changed_by_others
from onednn_graph_py.machine import store
from onednn_graph_py.model.verdicts import Outcome
from onednn_graph_py.model.verdicts.judge import Kept
from onednn_graph_py.serialization import read
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.explaining import peaks

# Values of JSON, with what floats and integers overflow at, and what is no text.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "é", "", "right", "facts", "1" * 5000]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
NO_JSON = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"a":' * 200_000,
    b"1" * 100_000,
    b'"\\ud800"',
    b"[1e999999]",
]
FUZZ = settings(max_examples=60)
MUCH = settings(max_examples=5000)


def seconds(call):
    began = time.process_time()
    call()
    return time.process_time() - began


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("untrusted")


def test_the_page_on_security_tells_the_limits_that_are_enforced():
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    rows = [line.split("|")[3].strip() for line in page.splitlines() if line.startswith("| ")][2:]
    told = [
        f"{read.MAX_BYTES >> 20} MiB; {read.MAX_MARKS:,} quotes",
        f"{loading_limit('MOST_BYTES') >> 30} GiB; {loading_limit('MOST_NODES'):,} nodes; "
        f"{loading_limit('MOST_DEPTH')} functions",
        f"{store._LARGEST >> 20} MiB; of this user or root",
    ]
    for row, limits in zip(rows, told, strict=True):
        assert row.startswith(limits)


def loading_limit(name):
    """Return a limit of ONNX models, which can be read where onnx is not installed."""
    text = (Path(og.__file__).parent / "onnx" / "loading.py").read_text()
    number, _, shift = re.search(rf"^{name} = ([^#\n]+)", text, re.MULTILINE)[1].partition(" << ")
    return int(number) << int(shift or 0)


# -- the folder of results


def read_as_all_results(file, signature="a partition"):
    """Read a file as each of the results that are kept; what is found must be one of these."""
    rates = peaks._kept(file)
    assert rates is None or 0 < rates["bandwidth"] < float("inf")
    verdicts = Kept(2)
    verdicts._file = lambda _: file
    assert verdicts.find(signature) is None


@FUZZ
@given(VALUES)
def test_results_of_any_json_are_results_or_nothing(folder, value):
    (folder / "found.json").write_text(json.dumps(value))
    read_as_all_results(folder / "found.json")


@pytest.mark.slow
@MUCH
@given(VALUES)
def test_results_of_much_json_are_results_or_nothing(folder, value):
    (folder / "found.json").write_text(json.dumps(value))
    read_as_all_results(folder / "found.json")


@FUZZ
@given(st.data())
def test_a_verdict_of_any_shape_is_a_verdict_or_nothing(folder, data):
    parts = ["outcome", "detail", "reduced", "ratio", "seconds", "kept", "other"]
    of = data.draw(st.dictionaries(st.sampled_from(parts), VALUES | st.just("right")))
    (folder / "told.json").write_text(json.dumps({"of": "a partition", **of}))
    verdicts = Kept(2)
    verdicts._file = lambda _: folder / "told.json"
    found = verdicts.find("a partition")
    assert found is None or isinstance(found.outcome, Outcome)
    str(found)


@pytest.mark.parametrize("text", NO_JSON, ids=range(len(NO_JSON)))
def test_results_of_no_json_are_nothing(folder, text):
    (folder / "found.json").write_bytes(text)
    read_as_all_results(folder / "found.json")


def test_results_are_read_from_files_of_a_usual_size_only(folder):
    with open(folder / "sparse.json", "wb") as file:
        file.truncate(1 << 40)
    if not (folder / "pipe.json").exists():
        os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir(exist_ok=True)
    for name in ("sparse", "pipe", "folder"):
        read_as_all_results(folder / f"{name}.json")


def test_results_of_another_user_are_nothing(folder, monkeypatch):
    file = folder / "others.json"
    file.write_text("[1]")
    assert store.load(file) == [1]
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:  # root's results are for all; another's are not
        assert store.load(file) == [1]
        os.chown(file, 12345, -1)
    assert store.load(file) is None


@pytest.mark.parametrize("how", ["is", "leads to", "lies in a folder that is"])
def test_results_that_others_could_have_put_there_are_nothing(tmp_path, how):
    place = tmp_path / "above/cache/speeds"
    place.mkdir(parents=True)
    store.save(place / "a.json", [1])
    assert store.load(place / "a.json") == [1]
    if how == "leads to":
        place.rename(tmp_path / "moved")
        place.symlink_to(tmp_path / "moved")
        assert store.load(place / "a.json") == [1]
        (tmp_path / "moved").chmod(0o777)
    else:
        (place if how == "is" else place.parent).chmod(0o777)
    assert store.load(place / "a.json") is None


def _group(*members):
    user = pwd.getpwuid(os.geteuid()).pw_name
    return SimpleNamespace(gr_name=user, gr_mem=[user, *members])


@pytest.mark.parametrize(
    ("group", "count"),
    [
        (_group(), True),
        (_group("nobody"), False),
        (_group("a user that is gone"), False),
        (SimpleNamespace(gr_name="team", gr_mem=[]), False),
    ],
    ids=["the user's own", "of two users", "of unknown users", "of a team"],
)
def test_results_that_a_group_could_have_put_there_count_if_it_is_the_user_s(
    tmp_path, monkeypatch, group, count
):
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    place = tmp_path / "cache/speeds"
    before = os.umask(0o002)
    try:
        store.save(place / "a.json", [1])
    finally:
        os.umask(before)
    assert store.load(place / "a.json") == [1]  # whatever the umask is
    place.chmod(0o775)
    assert (store.load(place / "a.json") == [1]) is count


def test_results_in_a_folder_that_lets_one_more_user_write_are_nothing(tmp_path):
    place = tmp_path / "speeds"
    store.save(place / "a.json", [1])
    nobody = 0xFFFFFFFF  # in entries of the owner, the group, the mask and all others
    entries = (1, 7, nobody), (2, 7, 12345), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(place, "system.posix_acl_access", packed)
    except OSError as e:
        pytest.skip(f"no access control lists here: {e.strerror}")
    assert store.load(place / "a.json") is None


def test_links_count_where_the_system_follows_them(tmp_path):
    """A link's ``..`` starts where its folder really lies, not where its name says."""
    for folder in ("mine", "others/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "mine/there").symlink_to(tmp_path / "others/deep")
    (tmp_path / "mine/file").write_text("x")
    (tmp_path / "others/next").symlink_to(tmp_path / "mine/file")
    (tmp_path / "mine/link").symlink_to("there/../next")
    assert (tmp_path / "mine/link").read_text() == "x"
    assert changed_by_others(tmp_path / "mine/link") == ""
    (tmp_path / "others").chmod(0o777)
    found = changed_by_others(tmp_path / "mine/link")
    assert found == f"all users may write to {tmp_path}/others"


def test_results_are_written_to_no_link(tmp_path):
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "a.json").symlink_to("mine")
    store.save(tmp_path / "a.json", [1])
    assert (tmp_path / "mine").read_text() == "kept"
    assert store.load(tmp_path / "a.json") == [1]
    assert {p.name for p in tmp_path.iterdir()} == {"mine", "a.json"}


# -- memory that others describe


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code_bits_lanes", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Described:
    """A producer of one-dimensional f32 memory, as it is told."""

    def __init__(self, data, count, *, ndim=1, shape=True, byte_offset=0):
        self._shape = (ctypes.c_int64 * 1)(count)
        address = ctypes.addressof(self._shape) if shape else None
        f32 = (ctypes.c_uint8 * 4)(2, 32, 1, 0)
        cpu = (ctypes.c_int32 * 2)(1, 0)
        self._made = _DLTensor(data, cpu, ndim, f32, address, None, byte_offset, None, None)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p) * 1 + (ctypes.c_void_p,),
        )
        return make(ctypes.addressof(self._made), b"dltensor", None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": None}, "must not be the null address"),
        ({"data": None, "byte_offset": 4096}, "must not be the null address"),
        ({"shape": False}, "DLPack's tensor has 1 dims, and no shape"),
        ({"ndim": -1}, "DLPack's tensor has -1 dims, and no shape"),
    ],
)
def test_dlpack_of_no_memory_is_refused(wrong, message):
    held = np.arange(16, dtype=np.float32)
    lt = og.logical_tensor(0, "f32", (16,), "strided")
    engine = og.engine("cpu", 0)
    assert og.tensor(lt, engine, Described(held.ctypes.data, 16)).numpy().tolist() == [*held]
    with pytest.raises(og.OneDNNError, match=message):
        og.tensor(lt, engine, Described(**{"data": held.ctypes.data, "count": 16, **wrong}))


def test_dlpack_without_elements_needs_no_memory():
    lt = og.logical_tensor(0, "f32", (0,), "strided")
    assert og.tensor(lt, og.engine("cpu", 0), Described(None, 0)).numpy().size == 0


# -- what a graph's names do to what is written of it

NAMES = [
    "<script>evil()</script>", '"]; evil("', "*/ evil(); /*", '"); evil("', "a\nevil()", "\\",
    "'''\nevil()", '"""\nevil()', "\x1b]0;evil\x07", "\u2028evil()", "%s{}{{evil}}", "a\revil()",
    "</svg><script>evil()</script>", "`evil`", "??/", "\u202eevil", "\x9b31m",
]  # fmt: skip
CONTROLS = {chr(c) for c in [*range(32), *range(0x7F, 0xA0)]} - {"\n", "\t"}
CONTROLS |= {"\u2028", "\u2029", "\u202e"}


def chain(*names):
    """Return the file of a graph with an op of each name."""
    b = og.GraphBuilder()
    x = b.input((4, 4), "f32")
    for _ in names:
        x = b.tanh(x)
    b.output(x)
    document = json.loads(b.to_json())
    for record, name in zip(document["graph"], names, strict=True):
        record["name"] = name
    return json.dumps(document)


class Elements(HTMLParser):
    """The names of all elements of a page, and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found |= {tag, *(name for name, _ in attrs)}


def test_names_of_a_graph_stay_names_in_all_that_is_written_of_it():
    usual = [f"name{i}" for i in range(len(NAMES))]
    b, plain = (serialization.to_builder(serialization.parse(chain(*n))) for n in (NAMES, usual))
    for form in ("builder", "mirror"):
        made, expected = (ast.parse(export.to_python(g, form)) for g in (b, plain))
        assert [type(n) for n in ast.walk(made)] == [type(n) for n in ast.walk(expected)]
    cpp, expected = (export.to_cpp(g) for g in (b, plain))
    literal, variable = r'"(\\.|[^"\\])*"', r"\bt\d+_\w+"
    skeletons = [re.sub(variable, "t", re.sub(literal, '""', g)) for g in (cpp, expected)]
    assert skeletons[0] == skeletons[1]
    diagram = og.diagram(b)
    explained, other = (og.explain(g, seconds=0, what_if=False) for g in (b, plain))
    texts = [cpp, diagram.mermaid(), diagram.dot(), str(explained)]
    assert [sorted(CONTROLS & set(text)) for text in texts] == [[]] * len(texts)
    assert Elements(explained._repr_html_()).found == Elements(other._repr_html_()).found


def hostile_files(folder):
    """Make files with control characters wherever a text can be; return a command for each."""
    evil = "\x1b]0;evil\x07\x9b31m\u202e"
    good = json.loads(chain("a", "b"))
    changes = {
        "name": lambda g: g["graph"][0].update(name=evil),
        "kind": lambda g: g["graph"][0].update(kind=evil),
        "dtype": lambda g: g["graph"][0]["inputs"][0].update(dtype=evil),
        "field": lambda g: g.update({evil: 1}),
        "attribute": lambda g: g["graph"][0]["attrs"].update({evil: {"type": "s64", "value": 1}}),
        "mode": lambda g: g.update(fpmath_mode=evil),
        "none": lambda g: None,
    }
    commands = []
    for name, change in changes.items():
        document = copy.deepcopy(good)
        change(document)
        file = str(folder / f"{name}{evil.replace('/', '')}.json")
        Path(file).write_text(json.dumps(document))
        commands += [["explain", "--seconds", "0", "--no-what-if", file], ["export", file]]
    commands += [["compare", "--threads", "1", "--seconds", "0", file], ["export", f"--{evil}"]]
    return [*commands, ["replay", str(folder)]]


def test_terminals_get_no_control_characters_of_files(tmp_path, capfd):
    for words in hostile_files(tmp_path):
        with contextlib.suppress(SystemExit):  # of what the command line has wrong
            assert cli.main(words) in (0, 1, 2)
        out, errors = capfd.readouterr()
        assert out or errors
        assert not CONTROLS & set(out + errors), words
