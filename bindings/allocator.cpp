#include "allocator.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "address.hpp"
#include "errors.hpp"

namespace ogp {

// oneDNN's allocator is two C function pointers without a context argument, copied into each
// engine. One pair of functions a slot stands in for the context. A slot is given out again only
// when its allocator is gone and everything it allocated has come back: compiled partitions in
// oneDNN's global cache may free memory long after the Python objects died.
struct allocator_slot {
    bool taken = false;  // guarded by slots_mutex
    std::atomic<int64_t> bytes_in_use{0};
    std::atomic<int64_t> peak_bytes{0};
    std::atomic<int64_t> allocations{0};
    std::atomic<int64_t> deallocations{0};
    // Only for Python callables; the references are dropped when the slot is given out again.
    PyObject *malloc = nullptr;
    PyObject *free = nullptr;
    std::mutex python_mutex;
    std::unordered_map<void *, std::pair<size_t, bool>> python_blocks;  // size, from the fallback
    dnnl_graph_host_allocate_f c_malloc = nullptr;
    dnnl_graph_host_deallocate_f c_free = nullptr;

    bool drained() const { return allocations.load() == deallocations.load(); }
};

namespace {

constexpr size_t slot_count = 64;
constexpr size_t default_alignment = 64;  // oneDNN's own for CPU memory

std::array<allocator_slot, slot_count> &slots() {
    // Never destroyed: oneDNN's static caches may outlive every static of ours.
    static auto *all = new std::array<allocator_slot, slot_count>;
    return *all;
}

std::mutex slots_mutex;

void note_allocation(allocator_slot &slot, size_t size) {
    const int64_t now =
            slot.bytes_in_use.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size);
    int64_t peak = slot.peak_bytes.load();
    while (now > peak && !slot.peak_bytes.compare_exchange_weak(peak, now)) {
    }
    ++slot.allocations;
}

void note_deallocation(allocator_slot &slot, size_t size) {
    slot.bytes_in_use.fetch_sub(static_cast<int64_t>(size));
    ++slot.deallocations;
}

// A block is preceded by one alignment unit that holds its header.
struct block_header {
    size_t size;      // that was asked for
    size_t offset;    // of the block in what the system gave
    size_t capacity;  // the bytes of the block
};

void release(block_header *header) {
    std::free(reinterpret_cast<char *>(header + 1) - header->offset);
}

// Blocks that came back, for the next one of about their size. Up to 3.12 oneDNN takes memory for
// what lies between the kernels of a partition at each call, and pages that are new to a process
// are cleared: a depthwise convolution took 1.6 times as long. Without a lock, which a fork could
// leave locked.
constexpr size_t least_kept = size_t{1} << 16;
constexpr size_t most_kept = size_t{1} << 23;
std::array<std::atomic<block_header *>, 8> kept_blocks{};
std::atomic<size_t> next_kept{0};

block_header *take_kept(size_t size, size_t alignment) {
    if (size < least_kept || size > most_kept) return nullptr;
    for (auto &place : kept_blocks) {
        block_header *header = place.exchange(nullptr);
        if (!header) continue;
        const bool aligned = reinterpret_cast<uintptr_t>(header + 1) % alignment == 0;
        if (aligned && header->capacity >= size && header->capacity / 2 <= size) return header;
        block_header *none = nullptr;
        if (!place.compare_exchange_strong(none, header)) release(header);
    }
    return nullptr;
}

void keep(block_header *header) {
    for (auto &place : kept_blocks) {
        block_header *none = nullptr;
        if (place.compare_exchange_strong(none, header)) return;
    }
    header = kept_blocks[next_kept++ % kept_blocks.size()].exchange(header);
    if (header) release(header);
}

// Returns the bytes that went back to the system.
size_t release_kept() {
    size_t bytes = 0;
    for (auto &place : kept_blocks)
        if (block_header *header = place.exchange(nullptr)) {
            bytes += header->capacity;
            release(header);
        }
    return bytes;
}

// Weights of which each call reads all are read 1.2 to 1.5 times faster from huge pages, where the
// system gives them to those who ask (transparent_hugepage: madvise).
constexpr size_t huge_page = size_t{1} << 21;

void *system_malloc(size_t size, size_t alignment) {
    if (block_header *kept = take_kept(size, std::max(alignment, default_alignment))) {
        kept->size = size;
        return kept + 1;
    }
    const size_t unit = std::max({alignment, default_alignment, size < huge_page ? 1 : huge_page});
    const size_t total = (size + 2 * unit - 1) / unit * unit;
    if (total < size) return nullptr;
    auto *base = static_cast<char *>(std::aligned_alloc(unit, total));
    if (!base) return nullptr;
    char *block = base + unit;
#ifdef MADV_HUGEPAGE
    // Only pages that are used whole, so that nothing is wasted; it is no error if there are none.
    if (size >= huge_page) madvise(block, size / huge_page * huge_page, MADV_HUGEPAGE);
#endif
    auto *header = reinterpret_cast<block_header *>(block) - 1;
    header->size = size;
    header->offset = unit;
    header->capacity = total - unit;
    return block;
}

size_t system_free(void *block) {
    auto *header = static_cast<block_header *>(block) - 1;
    const size_t size = header->size;
    if (header->capacity < least_kept || header->capacity > most_kept)
        release(header);
    else
        keep(header);
    return size;
}

// Asks the Python callable; a null return says that it could not or gave unusable memory.
void *python_malloc(allocator_slot &slot, size_t size, size_t alignment) {
    if (!Py_IsInitialized()) return nullptr;
    py::gil_scoped_acquire gil;
    try {
        py::object result = py::reinterpret_borrow<py::object>(slot.malloc)(size, alignment);
        const auto address = result.cast<uintptr_t>();
        if (address % std::max<size_t>(alignment, 1) != 0)
            raise_invalid_arguments("allocator: malloc returned an address that is not aligned to "
                    + std::to_string(alignment) + " bytes");
        if (!address_range_of(reinterpret_cast<void *>(address), size).writable)
            raise_invalid_arguments("allocator: malloc returned an address whose "
                    + std::to_string(size) + " bytes are not writable memory");
        return reinterpret_cast<void *>(address);
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.allocator malloc");
    } catch (const std::exception &e) {
        PyErr_SetString(PyExc_TypeError, "allocator: malloc must return an address as an int");
        PyErr_WriteUnraisable(slot.malloc);
    }
    return nullptr;
}

void python_free(allocator_slot &slot, void *block) {
    if (!Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    try {
        py::reinterpret_borrow<py::object>(slot.free)(reinterpret_cast<uintptr_t>(block));
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.allocator free");
    }
}

void *slot_malloc(allocator_slot &slot, size_t size, size_t alignment) {
    if (!slot.malloc) {
        void *block = system_malloc(size, alignment);
        if (block) note_allocation(slot, size);
        return block;
    }
    // oneDNN dereferences what its allocator returns without a check, so a callable that fails is
    // reported as unraisable and the system's memory stands in.
    void *block = python_malloc(slot, size, alignment);
    const bool fallback = block == nullptr;
    if (fallback) block = system_malloc(size, alignment);
    if (!block) return nullptr;
    note_allocation(slot, size);
    std::lock_guard<std::mutex> lock(slot.python_mutex);
    slot.python_blocks[block] = {size, fallback};
    return block;
}

void slot_free(allocator_slot &slot, void *block) {
    if (!block) return;
    // Another thread may have taken the block. oneDNN orders the two, out of sight of sanitizers.
    static_cast<void>(slot.allocations.load(std::memory_order_acquire));
    if (!slot.malloc) {
        note_deallocation(slot, system_free(block));
        return;
    }
    std::pair<size_t, bool> entry;
    {
        std::lock_guard<std::mutex> lock(slot.python_mutex);
        auto it = slot.python_blocks.find(block);
        if (it == slot.python_blocks.end()) return;
        entry = it->second;
        slot.python_blocks.erase(it);
    }
    if (entry.second)
        system_free(block);
    else
        python_free(slot, block);
    note_deallocation(slot, entry.first);
}

template <size_t Index>
void *malloc_of_slot(size_t size, size_t alignment) {
    return slot_malloc(slots()[Index], size, alignment);
}

template <size_t Index>
void free_of_slot(void *block) {
    slot_free(slots()[Index], block);
}

template <size_t... Index>
void fill_functions(std::index_sequence<Index...>) {
    ((slots()[Index].c_malloc = malloc_of_slot<Index>, slots()[Index].c_free = free_of_slot<Index>),
            ...);
}

allocator_slot *take_slot() {
#ifdef DNNL_WITH_SYCL
    raise_status(dnnl_unimplemented,
            "allocator: this oneDNN takes its memory from SYCL and has no host allocators");
#endif
    std::lock_guard<std::mutex> lock(slots_mutex);
    for (auto &slot : slots()) {
        if (slot.taken || !slot.drained()) continue;
        slot.taken = true;
        slot.bytes_in_use = slot.peak_bytes = slot.allocations = slot.deallocations = 0;
        Py_CLEAR(slot.malloc);
        Py_CLEAR(slot.free);
        return &slot;
    }
    raise_status(dnnl_out_of_memory,
            "allocator: " + std::to_string(slot_count)
                    + " allocators are alive or still have memory in use; reuse one of them");
}

}  // namespace

allocator::allocator() : slot(take_slot()), value(slot->c_malloc, slot->c_free) {}

allocator::allocator(malloc_function malloc, free_function free)
    : slot(take_slot()), value(slot->c_malloc, slot->c_free) {
    slot->malloc = malloc.release().ptr();
    slot->free = free.release().ptr();
}

allocator::~allocator() {
    std::lock_guard<std::mutex> lock(slots_mutex);
    slot->taken = false;
}

py::typing::Dict<py::str, py::int_> allocator::statistics() const {
    py::typing::Dict<py::str, py::int_> result;
    result["bytes_in_use"] = slot->bytes_in_use.load();
    result["peak_bytes"] = slot->peak_bytes.load();
    result["allocations"] = slot->allocations.load();
    result["deallocations"] = slot->deallocations.load();
    return result;
}

void init_allocator(py::module_ &m) {
    fill_functions(std::make_index_sequence<slot_count>{});

    m.def("_release_kept_blocks", &release_kept,
            "Give back the blocks that wait for the next call, and return their bytes.");

    py::class_<allocator, std::shared_ptr<allocator>>(m, "allocator",
            "Where an engine takes host memory from. Mirrors ``dnnl::graph::allocator``.\n\n"
            "oneDNN page: Graph API, Allocator. Hand it to `make_engine_with_allocator`; the engine\n"
            "keeps it alive.")
            .def(py::init<>(),
                    "An allocator over the system's aligned allocation that counts what is taken.\n\n"
                    "Raises\n------\nOutOfMemoryError\n    More than 64 allocators are alive.\n"
                    "UnimplementedError\n    The linked oneDNN takes memory from SYCL.")
            .def(py::init<malloc_function, free_function>(), py::arg("malloc"), py::arg("free"),
                    "An allocator over two Python callables.\n\n"
                    "Parameters\n----------\n"
                    "malloc : callable\n"
                    "    ``malloc(size, alignment) -> int``: address of `size` writable bytes.\n"
                    "free : callable\n"
                    "    ``free(address)``: gives one back.\n\n"
                    "Notes\n-----\n"
                    "oneDNN calls them from any thread. What they raise is reported through\n"
                    "``sys.unraisablehook`` and the system's memory is used instead.")
            .def("statistics", &allocator::statistics,
                    "Count the memory that was taken so far.\n\n"
                    "Returns\n-------\ndict\n"
                    "    ``bytes_in_use`` and ``peak_bytes`` in bytes, ``allocations`` and\n"
                    "    ``deallocations`` as counts.")
            .def("__repr__", [](const allocator &self) {
                return "allocator(" + std::to_string(self.slot->bytes_in_use.load())
                        + " bytes in use, peak " + std::to_string(self.slot->peak_bytes.load())
                        + " bytes, " + std::to_string(self.slot->allocations.load())
                        + " allocations)";
            });
}

}  // namespace ogp
