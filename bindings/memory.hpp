// Memory that a tensor uses: who owns it, how big it is, whether it may be written.
#pragma once

#include <memory>

#include <pybind11/numpy.h>

#include "forked.hpp"
#include "logical_tensor.hpp"

namespace ogp {

struct stream;

// What SYCL knows of memory.
struct usm_facts {
    std::string kind;        // shared, host or device; empty for memory that SYCL does not know
    py::object sycl_object;  // the queue, context or device that it was allocated with
    int device_id = -1;      // as DLPack counts SYCL's devices; -1 where DLPack can't name it
};

struct memory_block {
    py::object owner;  // the Python object that keeps the bytes alive; None for an address
    // Or the oneDNN tensor that allocated them, and its engine, which has to outlive it.
    std::shared_ptr<void> library_engine;
    dg::tensor library_tensor;
    void *data = nullptr;
    size_t bytes = 0;
    bool writable = true;
    bool on_host = true;  // whether the host may read it: not so with a device's own memory
    usm_facts usm;
    std::weak_ptr<stream> writer;  // of the last asynchronous execution that writes here

    // Who reads it without asking us first: the owner of an array that was given to us, what was
    // made by `numpy_view` or `dlpack_capsule` and lives, or whoever learned its address. The owner
    // of USM memory may also know when it may be read, from an event.
    bool is_an_array = false;
    bool is_usm_of_caller = false;
    size_t views = 0;  // guarded by the GIL
    bool address_is_known = false;

    memory_block() = default;
    ~memory_block() { leak_in_child(library_tensor); }
    memory_block(const memory_block &) = delete;
    memory_block &operator=(const memory_block &) = delete;

    bool is_shown() const { return is_an_array || views || address_is_known; }
    bool is_read_unasked() const { return is_usm_of_caller || is_shown(); }
};

using memory_ptr = std::shared_ptr<memory_block>;

// The memory of a NumPy array, a DLPack producer, a buffer or an integer address, checked against
// `lt`: data type, shape, strides, size, alignment, device. Nothing is copied. `of_sycl`: DLPack
// may bring memory of a SYCL device, which the caller has to check.
memory_ptr memory_from_python(py::handle source, const logical_tensor &lt, bool of_sycl = false);

// Whether an object is memory that only SYCL describes.
bool is_usm(py::handle source);

// The memory as a NumPy array that keeps it alive, without a copy. Opaque layouts and int4 come
// as bytes.
//
// Waits for the execution that writes it; raises where the host can't read it.
py::array numpy_view(const memory_ptr &memory, const logical_tensor &lt);

// The same for who asks only where the elements lie, and reads none.
py::array array_over(const memory_ptr &memory, const logical_tensor &lt);

// The pair (type, number) of the device that DLPack calls the memory's.
std::pair<int, int> dlpack_device_of(const memory_block &memory, const logical_tensor &lt);

// A DLPack capsule over the memory. `max_version` and `device` are None or tuples, as in the
// protocol. Waits for the execution that writes it.
py::capsule dlpack_capsule(const memory_ptr &memory, const logical_tensor &lt,
        const py::object &max_version, const py::object &device);

// What SYCL's arrays describe themselves with, as a dict; AttributeError where the memory is none.
// Waits for the execution that writes it.
py::dict usm_array_interface(const memory_ptr &memory, const logical_tensor &lt);

}  // namespace ogp
