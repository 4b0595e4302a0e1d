// dnnl::graph::allocator, with statistics that Python can read.
#pragma once

#include <memory>

#include "common.hpp"

namespace ogp {

struct allocator_slot;

struct allocator {
    // Counts what oneDNN takes from the system's aligned allocation.
    allocator();
    // Takes memory from two Python callables: malloc(size, alignment) -> address, free(address).
    allocator(py::function malloc, py::function free);
    ~allocator();
    allocator(const allocator &) = delete;
    allocator &operator=(const allocator &) = delete;

    py::typing::Dict<py::str, py::int_> statistics() const;

    allocator_slot *slot;
    dg::allocator value;
};

}  // namespace ogp
