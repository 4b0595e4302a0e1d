"""Random modules of torch by torch.compile, as eager mode computes them."""

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from front_end_draws import check, new_seeds
from torch_draws import verdict_of


def test_random_modules_are_what_eager_mode_computes():
    check(verdict_of, range(20))


@pytest.mark.slow
def test_new_random_modules_are_what_eager_mode_computes():
    check(verdict_of, new_seeds(1000))
