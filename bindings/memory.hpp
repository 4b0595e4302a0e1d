// Memory that a tensor uses: who owns it, how big it is, whether it may be written.
#pragma once

#include <memory>

#include <pybind11/numpy.h>

#include "logical_tensor.hpp"

namespace ogp {

struct stream;

struct memory_block {
    py::object owner;  // the Python object that keeps the bytes alive; None for an address
    // Or the oneDNN tensor that allocated them, and its engine, which has to outlive it.
    std::shared_ptr<void> library_engine;
    dg::tensor library_tensor;
    void *data = nullptr;
    size_t bytes = 0;
    bool writable = true;
    bool on_host = true;  // whether the host may read it: not so with a device's own memory
    std::weak_ptr<stream> writer;  // of the last asynchronous execution that writes here
};

using memory_ptr = std::shared_ptr<memory_block>;

// The memory of a NumPy array, a DLPack producer, a buffer or an integer address, checked against
// `lt`: data type, shape, strides, size, alignment, device. Nothing is copied.
memory_ptr memory_from_python(py::handle source, const logical_tensor &lt);

// The memory as a NumPy array that keeps it alive, without a copy. Opaque layouts and int4 come
// as bytes.
//
// Waits for the execution that writes it; raises where the host can't read it.
py::array numpy_view(const memory_ptr &memory, const logical_tensor &lt);

// The same for who asks only where the elements lie, and reads none.
py::array array_over(const memory_ptr &memory, const logical_tensor &lt);

// A DLPack capsule over the memory. `max_version` is None or a tuple, as in the protocol.
py::capsule dlpack_capsule(
        const memory_ptr &memory, const logical_tensor &lt, const py::object &max_version);

}  // namespace ogp
