"""Windows that slide over spatial dims, and shapes of pooling and interpolation."""

from dataclasses import dataclass

import numpy as np

from ..call import Call, Operand
from ..terms import MAX_NDIMS, UNKNOWN, Shape

Dims = tuple[int, ...]


def entries(call: Call, name: str, count: int, otherwise: int) -> Dims:
    """Return an attribute's entry for each of `count` spatial dims; `otherwise` if it is not set.

    No entry may be smaller. Dumped graphs contain oneDNN's default of a list, with one entry for
    every possible dim.
    """
    listed = call.attr(name)
    if listed is None or listed == (otherwise,) * MAX_NDIMS:
        return (otherwise,) * count
    if len(listed) != count:
        call.refuse_shape(
            f"attribute {name} must have {count} entries, one for each spatial dim, it has "
            f"{len(listed)}"
        )
    if any(n < otherwise for n in listed):
        call.refuse(f"attribute {name} must have no entry below {otherwise}, got {list(listed)}")
    return tuple(listed)


def given_shape(call: Call, name: str, declared: Operand) -> Operand:
    """Return the declared output, with the shape from an attribute if that is set."""
    listed = call.attr(name)
    if listed is None or listed == (0,) * MAX_NDIMS:
        return declared
    if any(d < 1 for d in listed):
        call.refuse_shape(f"attribute {name} is {list(listed)}, every entry must be at least 1")
    declared.need_shape(tuple(listed), f"as attribute {name} says")
    return Operand(declared.call, declared.name, tuple(listed), declared.dtype)


@dataclass(frozen=True)
class Data:
    """The dims of a data tensor by their meaning, for any data format."""

    batch: int
    channels: int
    spatial: Dims

    def shape(self, call: Call) -> Shape:
        """Return the tensor's shape in the order of data_format."""
        if call.channels_last:
            return (self.batch, *self.spatial, self.channels)
        return (self.batch, self.channels, *self.spatial)


def data_of(call: Call, operand: Operand) -> Data | None:
    """Return the dims of a data tensor by their meaning; None if its rank is unknown."""
    operand.need_rank(3)
    shape = operand.shape
    if shape is None:
        return None
    if call.channels_last:
        return Data(shape[0], shape[-1], shape[1:-1])
    return Data(shape[0], shape[1], shape[2:])


@dataclass(frozen=True)
class Window:
    """A window over spatial dims; an unknown size in `kernel` is -1."""

    call: Call
    kernel: Dims
    strides: Dims
    pads_begin: Dims
    pads_end: Dims
    dilations: Dims
    auto_pad: str

    def extent(self, i: int) -> int:
        """Return the window's size along a dim, with dilation."""
        return self.dilations[i] * (self.kernel[i] - 1) + 1

    @property
    def same(self) -> bool:
        """Whether paddings make the output size the input size divided by the stride."""
        return self.auto_pad in ("SAME_UPPER", "SAME_LOWER")

    def begin(self, i: int, size: int) -> int:
        """Return the padding before the data along a dim.

        - `size`: the data's; 0 for a transposed convolution, whose output is exactly the stride
          times its input
        """
        if not self.same:
            return 0 if self.auto_pad == "VALID" else self.pads_begin[i]
        both = max(self.extent(i) - (size % self.strides[i] or self.strides[i]), 0)
        return (both + (self.auto_pad == "SAME_LOWER")) // 2

    def slide(self, i: int, size: int, ceil: bool = False) -> int:
        """Return the number of windows along a dim, the output size of convolution and pooling."""
        if size < 0 or (self.kernel[i] < 0 and not self.same):
            return UNKNOWN
        if self.same:
            return -(-size // self.strides[i])
        padded = size
        if self.auto_pad == "None":
            padded += self.pads_begin[i] + self.pads_end[i]
        room = padded - self.extent(i)
        if room < 0:
            self.call.refuse_shape(
                f"the window of {self.extent(i)} does not fit into the padded {padded} of spatial "
                f"dim {i}"
            )
        return (room + (self.strides[i] - 1 if ceil else 0)) // self.strides[i] + 1

    def unslide(self, i: int, size: int, output_padding: int) -> int:
        """Return a transposed convolution's output size along a dim, the reverse of `slide`."""
        if size < 0 or self.kernel[i] < 0:
            return UNKNOWN
        pads = 0
        if self.auto_pad == "None":
            pads = self.pads_begin[i] + self.pads_end[i]
        elif self.same:
            pads = max(self.extent(i) - self.strides[i], 0)
        made = self.strides[i] * (size - 1) + self.extent(i) - pads + output_padding
        if made < 1:
            self.call.refuse_shape(f"spatial dim {i} of the output would have size {made}")
        return made


def window_of(call: Call, kernel: Dims) -> Window:
    """Return the window that an op's attributes describe."""
    n = len(kernel)
    return Window(
        call,
        kernel,
        entries(call, "strides", n, 1),
        entries(call, "pads_begin", n, 0),
        entries(call, "pads_end", n, 0),
        entries(call, "dilations", n, 1),
        call.attr("auto_pad"),
    )


def _pooled(call: Call, src: Operand) -> Shape:
    """Return the shape of the forward op's result for `src`."""
    listed = call.attr("kernel")
    data = data_of(call, src)
    if data is None:
        if listed is None:
            return None
        return Data(UNKNOWN, UNKNOWN, (UNKNOWN,) * len(listed)).shape(call)
    n = len(data.spatial)
    if listed is None:  # oneDNN reports the missing attribute itself
        return None
    window = window_of(call, entries(call, "kernel", n, 1))
    ceil = call.attr("rounding_type") == "ceil"
    sizes = tuple(window.slide(i, data.spatial[i], ceil) for i in range(n))
    return Data(data.batch, data.channels, sizes).shape(call)


def pool(call: Call) -> list[Shape]:
    """Infer (N, C, windows) from (N, C, sizes)."""
    return [_pooled(call, call.input(0))]


def avg_pool_backward(call: Call) -> list[Shape]:
    """Return src's shape, which only the attribute src_shape or the declared output gives."""
    src = given_shape(call, "src_shape", call.output(0))
    why = f"the forward op's result for {src.name}"
    call.input(0).need_shape(_pooled(call, src) if src.shape is not None else None, why)
    return [src.shape]


def max_pool_backward(call: Call) -> list[Shape]:
    """Return the shape of src."""
    src = call.input(0)
    why = f"the forward op's result for {src.name}"
    call.input(1).need_shape(_pooled(call, src) if src.shape is not None else None, why)
    return [src.shape]


def interpolate(call: Call) -> list[Shape]:
    """Infer (N, C, other sizes) from (N, C, sizes)."""
    data = data_of(call, call.input(0))
    scales, sizes = call.attr("scales"), call.attr("sizes")
    if data is None:
        listed = sizes or scales
        if not listed:
            return [None]
        made = sizes or (UNKNOWN,) * len(listed)
        return [Data(UNKNOWN, UNKNOWN, tuple(made)).shape(call)]
    for name, listed in (("scales", scales), ("sizes", sizes)):
        if listed and len(listed) != len(data.spatial):
            call.refuse_shape(
                f"attribute {name} must have {len(data.spatial)} entries, one for each spatial "
                f"dim, it has {len(listed)}"
            )
    if sizes and min(sizes) < 1:
        call.refuse(f"attribute sizes must have no entry below 1, got {list(sizes)}")
    spatial = list(data.spatial)
    if 0 in spatial:
        call.refuse_shape(f"spatial dims {spatial} of input 0 must be at least 1")
    for i, d in enumerate(spatial):
        if sizes:
            spatial[i] = sizes[i]
        elif scales and d >= 0:
            # oneDNN multiplies in single precision too.
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = np.float32(d) * np.float32(scales[i])
            if not 1 <= scaled < 1e9:
                call.refuse_shape(
                    f"attribute scales makes spatial dim {i} of the output {float(scaled)}"
                )
            spatial[i] = int(scaled)
        else:
            spatial[i] = UNKNOWN
    return [Data(data.batch, data.channels, tuple(spatial)).shape(call)]


def interpolate_backward(call: Call) -> list[Shape]:
    """Return the shape of src."""
    src = call.input(0)
    call.input(1).need_shape(interpolate(call)[0], f"the forward op's result for {src.name}")
    return [src.shape]
