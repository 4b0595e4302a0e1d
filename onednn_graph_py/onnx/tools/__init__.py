"""``python -m onednn_graph_py onnx``: what oneDNN runs of an ONNX model, how right and how fast."""
