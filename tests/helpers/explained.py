"""Graphs that the tests of explanations explain, and how a page's HTML is read."""

from html.parser import HTMLParser

import numpy as np

import onednn_graph_py as og


def chain():
    """Three partitions: MatMul and ReLU, SoftMax, MatMul."""
    b = og.GraphBuilder()
    x = b.input((64, 256), "f32", name="x")
    rng = np.random.default_rng(0)
    first = b.constant(rng.random((256, 512), np.float32), name="w0")
    second = b.constant(rng.random((512, 32), np.float32), name="w1")
    hidden = b.matmul(x, first, name="fc").relu(name="act").softmax(axis=-1, name="probabilities")
    b.output(y=b.matmul(hidden, second, name="out"))
    return b


def with_unsupported_op():
    b = og.GraphBuilder()
    x = b.input((8, 16), name="x")
    b.output(y=x.exp(name="e").pow(beta=0.3, name="p").relu(name="r"))
    return b


class Tags(HTMLParser):
    """Elements, texts and styles; an element that is not closed stays open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text, self.styles = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.styles += [value for name, value in attrs if name == "style"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
