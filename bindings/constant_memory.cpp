// Memory for constants whose addresses nobody can foresee.
//
// oneDNN knows a cached constant by a hash of its partition's id and its address. The hash is weak:
// of 300 partitions made one after the other, about 4 collide with an earlier one at an address
// within 12 MB of its constant, and then compute with the constant of the other. Addresses all over
// the address space make that improbable (below 1e-10 for two constants).

#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <random>

#include <pybind11/numpy.h>

#include "arguments.hpp"
#include "common.hpp"

namespace ogp {
namespace {

constexpr size_t alignment = 64;

struct mapping {
    void *base = nullptr;
    size_t bytes = 0;
    ~mapping() {
        if (base) munmap(base, bytes);
    }
};

uint64_t random_number() {
    static std::mutex mutex;
    static std::mt19937_64 generator{std::random_device{}()};
    const std::lock_guard<std::mutex> lock(mutex);
    return generator();
}

py::array allocate(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (size > static_cast<size_t>(PTRDIFF_MAX) - 2 * page) throw std::bad_alloc();
    auto made = std::make_unique<mapping>();
    made->bytes = (size + page) / page * page;  // never 0
    // Between 8 GB and 64 TB; the kernel takes another place where this one is taken.
    const uint64_t from = uint64_t{1} << 33, to = uint64_t{1} << 46;
    const uint64_t hint = (from + random_number() % (to - from)) / page * page;
    void *base = mmap(reinterpret_cast<void *>(hint), made->bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    made->base = base;
    const size_t slack = (made->bytes - size) / alignment;
    auto *start = static_cast<char *>(base) + random_number() % (slack + 1) * alignment;
    const py::capsule owner(
            made.release(), [](void *pointer) { delete static_cast<mapping *>(pointer); });
    return py::array(py::dtype("uint8"), {static_cast<py::ssize_t>(size)},
            {static_cast<py::ssize_t>(1)}, start, owner);
}

}  // namespace

void init_constant_memory(py::module_ &m) {
    m.def(
            "_constant_memory", [](index_arg size) { return allocate(size); }, py::arg("size"),
            "Zeroed bytes, aligned to 64, at an address that no other constant is near to.\n\n"
            "Raises\n------\nMemoryError\n    The system has none.");
}

}  // namespace ogp
