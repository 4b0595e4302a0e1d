"""The random families: what they draw, and that models compute it right."""

import itertools

import numpy as np
import pytest
from drawn_conditions import CONDITIONS

from onednn_graph_py.selftest import FAMILIES, search
from onednn_graph_py.selftest import draft as draft_module
from onednn_graph_py.selftest import single_ops as single_ops_module

RANDOM = [f for f in FAMILIES.values() if f.count is None]
SEEDS = 20
MANY = 400
DRAWN = 4000


@pytest.fixture
def every_type_runs(monkeypatch):
    """Draw as a CPU would that has kernels for all data types."""
    for module in (draft_module, single_ops_module):
        monkeypatch.setattr(module, "lacks", lambda dtype: None)


@pytest.mark.parametrize("defect", CONDITIONS)
def test_a_family_draws_what_shows_each_known_defect(defect, every_type_runs):
    name, condition = CONDITIONS[defect]
    draw = FAMILIES[name].draw
    assert any(condition(draw(seed)[0]) for seed in itertools.islice(itertools.count(), DRAWN))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_seed_draws_the_same_graph_and_arrays_again(family):
    for seed in (0, 1, 7):
        (one, given), (other, again) = family.draw(seed), family.draw(seed)
        assert one.to_json() != "" and len(one.nodes) == len(other.nodes)
        for a, b in zip(one.nodes, other.nodes, strict=True):
            assert (a.kind, dict(a.attrs)) == (b.kind, dict(b.attrs))
            assert [v.shape for v in a.inputs] == [v.shape for v in b.inputs]
        for x, y in zip(given, again, strict=True):
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes()
        for x, y in zip(one.constants, other.constants, strict=True):
            assert np.array_equal(x.data, y.data)


def check(family, first, count):
    """All of these are right in a model compiled by default, and most of them run."""
    chosen = type(family)(family.name, family.draw, lambda: count)
    report = search([chosen], seconds=3600.0, seed=first)
    (found,) = report.counts.values()
    assert report.ok, str(report)
    assert found.cases == count
    assert found.refused <= count // 2


@pytest.mark.parametrize("family", RANDOM, ids=lambda f: f.name)
def test_models_compute_random_graphs_right(family):
    check(family, 0, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1000 + 5 * MANY, MANY))
@pytest.mark.parametrize("family", RANDOM, ids=lambda f: f.name)
def test_models_compute_many_random_graphs_right(family, first):
    check(family, first, MANY)
