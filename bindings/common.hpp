// What every binding file shares: names, the version guard, and the list of rooms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_graph.hpp"

// True when the oneDNN headers we compile against are at least MAJOR.MINOR.
#define OGP_ONEDNN_AT_LEAST(MAJOR, MINOR) \
    (DNNL_VERSION_MAJOR > (MAJOR)         \
            || (DNNL_VERSION_MAJOR == (MAJOR) && DNNL_VERSION_MINOR >= (MINOR)))

namespace ogp {

namespace py = pybind11;
namespace dg = dnnl::graph;

// The registration functions, one per file, in the order module.cpp calls them.
void init_errors(py::module_ &m);
void init_enums(py::module_ &m);
void init_allocator(py::module_ &m);
void init_engine(py::module_ &m);
void init_stream(py::module_ &m);
void init_logical_tensor(py::module_ &m);
void init_tensor(py::module_ &m);
void init_op(py::module_ &m);
void init_partition(py::module_ &m);
void init_compiled_partition(py::module_ &m);
void init_execution(py::module_ &m);
void init_cpu_runtime(py::module_ &m);
void init_constant_cache_hold(py::module_ &m);
void init_forked(py::module_ &m);
void init_constant_memory(py::module_ &m);
void init_executor(py::module_ &m);
void init_recorder(py::module_ &m);
void init_device_allocator(py::module_ &m);
void init_sycl_interop(py::module_ &m);
void init_ocl_interop(py::module_ &m);
void init_graph(py::module_ &m);
void init_caches(py::module_ &m);
void init_settings(py::module_ &m);
void init_testing(py::module_ &m);
void init_classes(py::module_ &m);

}  // namespace ogp
