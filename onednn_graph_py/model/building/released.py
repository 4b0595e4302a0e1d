"""The stand-in for a constant whose memory was given back: `ReleasedArray`."""

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.errors import InvalidArgumentsError


class ReleasedArray(np.lib.mixins.NDArrayOperatorsMixin, _core._constant_place):
    """A constant without its elements; whatever needs them raises `InvalidArgumentsError`.

    - `array`: the constant's array, which must go before its memory is given back
    - `constant`, `model`: the names of the constant and of the model that released it, for messages
    """

    def __init__(self, array: npt.NDArray[Any], constant: str, model: str) -> None:
        super().__init__(array)
        self.dtype = array.dtype
        self.shape = array.shape
        self.size = array.size
        self.ndim = array.ndim
        self._told = (constant, model)

    def __repr__(self) -> str:
        return f"<released constant {self._told[0]!r}: {self.dtype} {list(self.shape)}>"

    def restored(self) -> npt.NDArray[Any]:
        """Return the array; only possible as long as its memory was not given back."""
        made: npt.NDArray[Any] = self.array().view(self.dtype).reshape(self.shape)
        made.flags.writeable = False
        return made

    def refuse(self, what: str = "this") -> NoReturn:
        """Raise the error of all that needs the elements."""
        constant, model = self._told
        raise InvalidArgumentsError(
            f"constant {constant!r} was released (release_constants of model {model!r}), and "
            f"{what} needs its elements; do it before the release, or build and compile the graph "
            "again"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # others ask objects in this way what they are
            raise AttributeError(name)
        self.refuse()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse()

    __array__ = __array_ufunc__ = __array_function__ = __dlpack__ = __dlpack_device__ = _refuse
    __getitem__ = __len__ = _refuse
    __reduce_ex__ = _refuse
