"""Statements of oneDNN's documents that the library does not keep, and the page that lists them."""

import pytest
from graphs import LINKED
from matrix import documents_page
from matrix.documents_page import of_ops
from raw_library import accepts

import onednn_graph_py as og

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


def test_the_spelling_of_auto_pad():
    for documented, taken in {
        "none": "None",
        "same_upper": "SAME_UPPER",
        "same_lower": "SAME_LOWER",
        "valid": "VALID",
    }.items():
        assert not takes("Convolution", {**CONVOLUTION, "auto_pad": documented})
        assert takes("Convolution", {**CONVOLUTION, "auto_pad": taken})


@pytest.mark.parametrize(
    ("documented", "taken"), [("OIX", "IOX"), ("XIO", "XOI")], ids=["IOX", "XOI"]
)
def test_the_names_of_transposed_weights(documented, taken):
    weights = W if taken == "IOX" else ("f32", (1, 1, 4, 4))
    for format, expected in ((documented, False), (taken, True)):
        attributes = {**TRANSPOSED, "weights_format": format}
        assert takes("ConvTranspose", attributes, (X, weights)) == expected


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
