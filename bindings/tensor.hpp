// dnnl::graph::tensor: a logical tensor with memory, which it keeps alive.
#pragma once

#include "engine.hpp"
#include "memory.hpp"

namespace ogp {

struct tensor {
    logical_tensor lt;
    engine_ptr engine_;
    memory_ptr memory;
    // Last, so that it is destroyed first. A new C++ tensor is made for every set_data_handle,
    // never changed in place: views and running calls keep the old one.
    dg::tensor value;
    // Counts set_data_handle calls, so that what was bound to the old memory notices.
    uint64_t generation = 0;
    // Calls that run on this memory right now, without the GIL; counted while holding it.
    int in_use = 0;

    void require() const;
};

std::string repr(const tensor &t);

}  // namespace ogp
