"""Statements of oneDNN's documents that the library does not keep, and the page that lists them."""

import pytest
from graphs import LINKED
from raw_library import accepts

import onednn_graph_py as og
from matrix import documents_page
from matrix.documents_page import of_ops

CONVOLUTION = {
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "data_format": "NCX",
    "weights_format": "OIX",
}
TRANSPOSED = {**CONVOLUTION, "weights_format": "IOX"}
X, W, Y = ("f32", (1, 4, 8, 8)), ("f32", (4, 4, 1, 1)), ("f32", (1, 4, 8, 8))


def takes(kind, attributes, inputs=(X, W), output=Y):
    return accepts(kind, inputs, output, attributes)


SHAPE = {"dst_shape": [1, 4, 8, 8]}
WEIGHTS = {"weights_shape": [4, 4, 1, 1]}
POOL = {name: CONVOLUTION[name] for name in ("strides", "pads_begin", "pads_end", "data_format")}
POOL |= {"kernel": [1, 1], "exclude_pad": True}
LARGEST = {name: value for name, value in POOL.items() if name != "exclude_pad"}
SPATIAL = {
    "Convolution": ((X, W), Y, CONVOLUTION),
    "ConvolutionBackwardData": ((X, W), Y, CONVOLUTION | SHAPE),
    "ConvolutionBackwardWeights": ((X, Y), W, CONVOLUTION | WEIGHTS),
    "ConvTranspose": ((X, W), Y, TRANSPOSED),
    "ConvTransposeBackwardData": ((X, W), Y, TRANSPOSED),
    "ConvTransposeBackwardWeights": ((X, Y), W, TRANSPOSED | WEIGHTS),
    "AvgPool": ((X,), Y, POOL),
    "AvgPoolBackward": ((X,), Y, POOL | {"src_shape": [1, 4, 8, 8]}),
    "MaxPool": ((X,), Y, LARGEST),
    "MaxPoolBackward": ((X, Y), Y, LARGEST),
}
"""Inputs, output and attributes of each op that has auto_pad."""

SPELLINGS = {
    "none": "None",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
    "valid": "VALID",
}


def ops_of(test):
    """The ops that the page names beside a test."""
    (row,) = (r for r in of_ops() if r.test.endswith(f"::{test}"))
    return row.where.split(", ")


@pytest.mark.parametrize("kind", SPATIAL)
def test_the_spelling_of_auto_pad(kind):
    assert sorted(SPATIAL) == sorted(ops_of("test_the_spelling_of_auto_pad"))
    inputs, output, attributes = SPATIAL[kind]
    for documented, taken in SPELLINGS.items():
        for value, expected in ((documented, False), (taken, True)):
            assert takes(kind, {**attributes, "auto_pad": value}, inputs, output) == expected


@pytest.mark.parametrize("kind", [kind for kind in SPATIAL if kind.startswith("ConvTranspose")])
@pytest.mark.parametrize(
    ("documented", "taken"), [("OIX", "IOX"), ("XIO", "XOI")], ids=["IOX", "XOI"]
)
def test_the_names_of_transposed_weights(kind, documented, taken):
    assert kind in ops_of("test_the_names_of_transposed_weights")
    inputs, output, attributes = SPATIAL[kind]
    if taken == "XOI":
        first = ("f32", (1, 1, 4, 4))
        inputs, output = (inputs, first) if output is W else ((inputs[0], first), output)
        attributes = attributes | ({"weights_shape": [1, 1, 4, 4]} if output == first else {})
    for value, expected in ((documented, False), (taken, True)):
        assert takes(kind, {**attributes, "weights_format": value}, inputs, output) == expected


@pytest.mark.parametrize("kind", ["ConvTransposeBackwardData", "ConvTransposeBackwardWeights"])
def test_the_output_padding_of_gradients(kind):
    inputs = (X, W) if kind.endswith("Data") else (X, Y)
    more = {} if kind.endswith("Data") else {"weights_shape": [4, 4, 1, 1]}
    output = Y if kind.endswith("Data") else W
    for padding, expected in (({}, True), ({"output_padding": [0, 0]}, False)):
        assert takes(kind, {**TRANSPOSED, **more, **padding}, inputs, output) == expected


@pytest.mark.skipif(LINKED < (3, 12), reason="about oneDNN < 3.12, which has no Dropout")
def test_the_type_of_dropouts_seed():
    assert "u64" not in og.logical_tensor.data_type.__members__
    for dtype, expected in (("s32", False), ("s64", True)):
        inputs = (("f32", (4, 4)), (dtype, (1,)), (dtype, (1,)), ("f32", (1,)))
        assert accepts("Dropout", inputs, ("f32", (4, 4)), {}) == expected


def test_each_statement_of_an_op_has_a_test():
    for row in of_ops():
        name = row.test.partition("::")[2]
        assert callable(globals().get(name)) or row.test.startswith("gallery"), row


def test_the_page_is_what_the_tables_say():
    kept = documents_page.PAGE.read_text(encoding="utf-8")
    assert kept == documents_page.text(), "run: ./dev matrix --page"
