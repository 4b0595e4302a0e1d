// What the extension asks the Python package: the table of ops and oneDNN's defects are there.
#pragma once

#include <vector>

#include "engine.hpp"
#include "graph.hpp"

namespace ogp {

// The documents spell some choices otherwise than the library does; the table of ops knows.
std::string library_spelling(const op &o, dg::op::attr name, const std::string &value);

// Raises where oneDNN would crash on an op, or leave its buffers, whatever the version.
// With `validate` also where the op does not fit its row in the table of ops.
void check_op(const op &o, bool validate = false);

// The same for the ops of one partition, with the tensors that compile was given (of those with
// equal ids the last one counts), and for what only this version gets wrong.
void check_partition(const graph_record &record, const std::vector<const op *> &ops,
        const std::vector<logical_tensor> &given);

// Raises KnownDefectError for a graph that crashes oneDNN while it looks for fusions.
void check_partitioning(const graph_record &record);

// A tensor of memory that SYCL allocated; Python knows through dpctl which one an engine reaches.
py::object tensor_of_usm(const logical_tensor &lt, const engine_ptr &e, py::handle data);

// The module that defines the exceptions.
py::module_ exception_classes();

}  // namespace ogp
