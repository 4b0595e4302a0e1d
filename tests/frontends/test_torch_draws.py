"""Random modules of torch by torch.compile and exported, as eager mode computes them."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from front_end_draws import check, new_seeds
from torch_draws import verdict_of
from torch_export_draws import verdict_of as verdict_of_export


@pytest.mark.parametrize("judge", [verdict_of, verdict_of_export], ids=["compiled", "exported"])
def test_random_modules_are_what_eager_mode_computes(judge):
    check(judge, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("judge", [verdict_of, verdict_of_export], ids=["compiled", "exported"])
def test_new_random_modules_are_what_eager_mode_computes(judge):
    check(judge, new_seeds(250))
