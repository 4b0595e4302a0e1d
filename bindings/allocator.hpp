// dnnl::graph::allocator, with statistics that Python can read.
#pragma once

#include <memory>

#include "common.hpp"

namespace ogp {

struct allocator_slot;

using malloc_function = py::typing::Callable<py::int_(py::int_, py::int_)>;
using free_function = py::typing::Callable<void(py::int_)>;

struct allocator {
    // Counts what oneDNN takes from the system's aligned allocation.
    allocator();
    // Takes memory from two Python callables: malloc(size, alignment) -> address, free(address).
    allocator(malloc_function malloc, free_function free);
    ~allocator();
    allocator(const allocator &) = delete;
    allocator &operator=(const allocator &) = delete;

    py::typing::Dict<py::str, py::int_> statistics() const;

    allocator_slot *slot;
    dg::allocator value;
};

}  // namespace ogp
