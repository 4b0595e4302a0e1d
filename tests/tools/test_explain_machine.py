"""What the machine reaches: measured once, kept on disk."""

import json

from graphs import RUNTIME

import onednn_graph_py as og
from onednn_graph_py.tools.explaining import machine, peaks
from onednn_graph_py.tools.explaining.peaks import PEAK_TYPES


def test_peaks_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    first = machine()
    (file,) = [f for f in (tmp_path / "machine").iterdir() if f.suffix == ".json"]
    assert first.threads == og.num_threads()
    assert first.runtime == RUNTIME
    assert set(first.operations) <= set(PEAK_TYPES)
    assert {"f32", "s8"} <= set(first.operations)
    assert min(first.bandwidth, *first.operations.values()) > 0
    kept = json.loads(file.read_text())
    assert kept["operations"] == dict(first.operations)
    bandwidths = iter([2e9, 3e9])
    monkeypatch.setattr(peaks, "_measured", lambda n: {**kept, "bandwidth": next(bandwidths)})
    file.write_text(json.dumps({**kept, "bandwidth": 12345.0}))
    peaks._machine.cache_clear()
    assert machine().bandwidth == 12345.0
    file.write_text("{")
    peaks._machine.cache_clear()
    assert machine().bandwidth == 2e9
    assert machine().bandwidth == json.loads(file.read_text())["bandwidth"] == 2e9
    assert machine(refresh=True).bandwidth == 3e9
    assert json.loads(file.read_text())["bandwidth"] == 3e9
