// Running a compiled partition: the checks, the library call, and the call bound beforehand.
#pragma once

#include <functional>

#include "compiled_partition.hpp"
#include "stream.hpp"
#include "tensor.hpp"

namespace ogp {

// What oneDNN's C functions that execute take, checked and resolved.
struct handle_arguments {
    const_dnnl_graph_compiled_partition_t compiled_partition;
    dnnl_stream_t stream;
    size_t input_count;
    const_dnnl_graph_tensor_t *inputs;
    size_t output_count;
    const_dnnl_graph_tensor_t *outputs;
    const_dnnl_graph_tensor_t scratchpad;
};
using submit_function = std::function<dnnl_status_t(const handle_arguments &)>;

// `execute` through another of oneDNN's functions, which gives an event. What is used is kept until
// `is_complete()`, which asks that event, is true, or the stream has been waited for. `wait` as
// Python's `execute` explains it.
void execute_with_event(const submit_function &submit, const py::object &is_complete,
        const compiled_partition_ptr &cp, stream &s, py::handle inputs, py::handle outputs,
        py::handle scratchpad, bool wait);

// Seconds for `count` calls from C++, as a program without Python would make them.
double time_execute(compiled_partition &cp, stream &s, const py::object &inputs,
        const py::object &outputs, size_t count);

}  // namespace ogp
