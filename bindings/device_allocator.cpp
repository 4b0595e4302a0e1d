#include "device_allocator.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "errors.hpp"

namespace ogp {

// As in allocator.cpp: oneDNN's callbacks have no context argument, so each slot has a pair of
// functions of its own. The GIL guards it all.
struct block {
    size_t size;
    bool spare;
};

struct device_slot {
    bool taken = false;
    // Let go when the slot is given out again.
    PyObject *malloc = nullptr;
    PyObject *free = nullptr;
    PyObject *spare_malloc = nullptr;  // for when malloc fails
    PyObject *spare_free = nullptr;
    c_device_malloc c_malloc = nullptr;
    c_device_free c_free = nullptr;

    std::unordered_map<void *, block> blocks;  // what is in use
    int64_t bytes_in_use = 0, peak_bytes = 0, allocations = 0, deallocations = 0;
};

namespace {

constexpr size_t device_slot_count = 64;

std::array<device_slot, device_slot_count> &device_slots() {
    // Never destroyed: oneDNN's caches may outlive every static of ours.
    static auto *all = new std::array<device_slot, device_slot_count>;
    return *all;
}

uintptr_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

// Asks a callable; a null return says that it could not.
void *python_malloc(
        PyObject *malloc, size_t size, size_t alignment, const void *device, const void *context) {
    try {
        const py::object result = py::reinterpret_borrow<py::object>(malloc)(
                size, alignment, number(device), number(context));
        const auto address = result.cast<uintptr_t>();
        if (address == 0 || address % std::max<size_t>(alignment, 1) != 0)
            raise_invalid_arguments("make_allocator: malloc returned the address "
                    + std::to_string(address) + ", which is null or not aligned to "
                    + std::to_string(alignment) + " bytes");
        return reinterpret_cast<void *>(address);
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.make_allocator malloc");
    } catch (const std::exception &) {
        PyErr_SetString(PyExc_TypeError, "make_allocator: malloc must return an address, an int");
        PyErr_WriteUnraisable(malloc);
    }
    return nullptr;
}

void *slot_malloc(
        device_slot &slot, size_t size, size_t alignment, const void *device, const void *context) {
    if (!Py_IsInitialized()) return nullptr;
    py::gil_scoped_acquire gil;
    // oneDNN also asks for no bytes at all, which dpctl refuses to give.
    const size_t asked = std::max<size_t>(size, 1);
    // oneDNN writes to what it gets without a look: null would end the process.
    void *address = python_malloc(slot.malloc, asked, alignment, device, context);
    const bool spare = !address;
    if (spare) address = python_malloc(slot.spare_malloc, asked, alignment, device, context);
    if (!address) return nullptr;
    slot.blocks[address] = {size, spare};
    slot.bytes_in_use += static_cast<int64_t>(size);
    slot.peak_bytes = std::max(slot.peak_bytes, slot.bytes_in_use);
    ++slot.allocations;
    return address;
}

void slot_free(
        device_slot &slot, void *address, const void *device, const void *context, void *event) {
    // When the interpreter is gone, the process ends, and its memory with it.
    if (!address || !Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    const auto found = slot.blocks.find(address);
    if (found == slot.blocks.end()) return;
    const block gone = found->second;
    slot.blocks.erase(found);
    slot.bytes_in_use -= static_cast<int64_t>(gone.size);
    ++slot.deallocations;
    try {
        py::reinterpret_borrow<py::object>(gone.spare ? slot.spare_free : slot.free)(
                number(address), number(device), number(context), number(event));
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.make_allocator free");
    }
}

template <size_t Index>
void *malloc_of_slot(size_t size, size_t alignment, const void *device, const void *context) {
    return slot_malloc(device_slots()[Index], size, alignment, device, context);
}

template <size_t Index>
void free_of_slot(void *block, const void *device, const void *context, void *event) {
    slot_free(device_slots()[Index], block, device, context, event);
}

template <size_t... Index>
void fill_device_functions(std::index_sequence<Index...>) {
    ((device_slots()[Index].c_malloc = malloc_of_slot<Index>,
             device_slots()[Index].c_free = free_of_slot<Index>),
            ...);
}

device_slot *take_device_slot() {
    for (auto &slot : device_slots()) {
        // oneDNN's caches may give memory back long after the Python object died.
        if (slot.taken || !slot.blocks.empty()) continue;
        slot.taken = true;
        slot.bytes_in_use = slot.peak_bytes = slot.allocations = slot.deallocations = 0;
        for (auto *callable : {&slot.malloc, &slot.free, &slot.spare_malloc, &slot.spare_free})
            Py_CLEAR(*callable);
        return &slot;
    }
    raise_status(dnnl_out_of_memory,
            "make_allocator: " + std::to_string(device_slot_count)
                    + " allocators are alive or still have memory in use; reuse one of them");
}

}  // namespace

device_allocator::device_allocator(create_function create, const py::object &malloc,
        const py::object &free, const spare_functions &spare) {
    if (malloc.is_none() != free.is_none())
        throw py::type_error("make_allocator: give both malloc and free, or neither");
    if (!malloc.is_none() && !(PyCallable_Check(malloc.ptr()) && PyCallable_Check(free.ptr())))
        throw py::type_error("make_allocator: malloc and free must be callables");
    if (!malloc.is_none()) {
        const auto owned = [](py::object callable) { return callable.release().ptr(); };
        slot = take_device_slot();
        slot->malloc = owned(malloc);
        slot->free = owned(free);
        slot->spare_malloc = owned(spare.first);
        slot->spare_free = owned(spare.second);
    }
    const auto status =
            slot ? create(&value, slot->c_malloc, slot->c_free) : create(&value, nullptr, nullptr);
    if (status == dnnl_success) return;
    if (slot) slot->taken = false;
    raise_status(status, "make_allocator: oneDNN made no allocator (" + status_name(status) + ")");
}

device_allocator::~device_allocator() {
    if (value) dnnl_graph_allocator_destroy(value);
    if (slot) slot->taken = false;
}

py::object device_allocator::statistics() const {
    if (!slot) return py::none();
    py::dict result;
    result["bytes_in_use"] = slot->bytes_in_use;
    result["peak_bytes"] = slot->peak_bytes;
    result["allocations"] = slot->allocations;
    result["deallocations"] = slot->deallocations;
    return std::move(result);
}

engine_ptr engine_that_keeps(device_allocator_ptr allocator) {
    struct both {
        device_allocator_ptr allocator;  // before the engine, so that it is destroyed after it
        engine made;
    };
    auto holder = std::make_shared<both>();
    holder->allocator = std::move(allocator);
    return engine_ptr(holder, &holder->made);
}

void init_device_allocator(py::module_ &m) {
    fill_device_functions(std::make_index_sequence<device_slot_count>{});

    py::class_<device_allocator, device_allocator_ptr>(m, "_device_allocator",
            "Where an engine takes device memory from; made by `sycl_interop.make_allocator` and\n"
            "`ocl_interop.make_allocator`. Mirrors ``dnnl::graph::allocator``.")
            .def("statistics", &device_allocator::statistics,
                    "Count the memory that was taken so far.\n\n"
                    "Returns\n-------\ndict or None\n"
                    "    ``bytes_in_use`` and ``peak_bytes`` in bytes, ``allocations`` and\n"
                    "    ``deallocations`` as counts; None where oneDNN's own functions are in use.")
            .def("__repr__", [](const device_allocator &self) -> std::string {
                if (!self.slot) return "allocator(of oneDNN)";
                return "allocator(" + std::to_string(self.slot->bytes_in_use)
                        + " bytes in use, peak " + std::to_string(self.slot->peak_bytes)
                        + " bytes, " + std::to_string(self.slot->allocations) + " allocations)";
            });
}

}  // namespace ogp
