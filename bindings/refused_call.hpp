// A call that oneDNN refused, as plain values: another process can make it again and see what
// oneDNN prints then (refusals/).
#pragma once

#include <string>

#include "graph.hpp"

namespace ogp {

// A call on a graph, such as "finalize".
py::dict refused_call(const std::string &call, const graph_record &record, dnnl::engine::kind kind);

// A call with an op, such as "add_op".
py::dict refused_call(const std::string &call, const op &o, dnnl::engine::kind kind);

// Logical tensors of a call; None if one is opaque, which means nothing in another process.
py::object as_values(const std::vector<logical_tensor> &lts);

}  // namespace ogp
