// dnnl::graph::allocator over functions that allocate memory of a SYCL or OpenCL device.
#pragma once

#include <memory>
#include <utility>

#include "engine.hpp"

namespace ogp {

struct device_slot;

// malloc(size, alignment, device, context) -> address; free(address, device, context, event).
// Device, context and event are addresses: of sycl::device, sycl::context and sycl::event, or
// OpenCL handles.
using spare_functions = std::pair<py::object, py::object>;

// The shape of dnnl_graph_sycl_interop_allocator_create and of its twin for OpenCL.
using c_device_malloc = void *(*)(size_t, size_t, const void *, const void *);
using c_device_free = void (*)(void *, const void *, const void *, void *);
using create_function = dnnl_status_t (*)(dnnl_graph_allocator_t *, c_device_malloc, c_device_free);

struct device_allocator {
    // oneDNN's own functions where there are no callables. The spare ones serve where malloc fails.
    device_allocator(create_function create, const py::object &malloc, const py::object &free,
            const spare_functions &spare);
    ~device_allocator();
    device_allocator(const device_allocator &) = delete;
    device_allocator &operator=(const device_allocator &) = delete;

    // None where oneDNN's own functions are in use.
    py::object statistics() const;

    device_slot *slot = nullptr;
    dnnl_graph_allocator_t value = nullptr;
};

using device_allocator_ptr = std::shared_ptr<device_allocator>;

// A still empty engine, which keeps the allocator that it is going to call.
engine_ptr engine_that_keeps(device_allocator_ptr allocator);

}  // namespace ogp
