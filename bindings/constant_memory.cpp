// Memory for constants whose addresses nobody can foresee.
//
// oneDNN knows a cached constant by a hash of its partition's id and its address. The hash is weak:
// of 300 partitions made one after the other, about 4 collide with an earlier one at an address
// within 12 MB of its constant, and then compute with the constant of the other. Addresses all over
// the address space make that improbable (below 1e-10 for two constants).

#include <unistd.h>

#include <functional>
#include <mutex>
#include <optional>
#include <random>

#include <pybind11/numpy.h>

#include "arguments.hpp"
#include "constant_pages.hpp"
#include "errors.hpp"

namespace ogp {
namespace {

constexpr size_t alignment = 64;

uint64_t random_number() {
    static std::mutex mutex;
    static std::mt19937_64 generator{std::random_device{}()};
    const std::lock_guard<std::mutex> lock(mutex);
    return generator();
}

constexpr const char *capsule_name = "a constant's pages";

// The base of an array; it counts as an owner of the pages as long as an array lives.
py::capsule owner_of(const constant_pages_ptr &pages) {
    auto held = std::make_unique<constant_pages_ptr>(pages);
    PyObject *made = PyCapsule_New(held.get(), capsule_name, [](PyObject *capsule) {
        auto *p = static_cast<constant_pages_ptr *>(PyCapsule_GetPointer(capsule, capsule_name));
        --(*p)->owners;
        delete p;
    });
    if (!made) throw py::error_already_set();
    ++(*held.release())->owners;
    return py::reinterpret_steal<py::capsule>(made);
}

py::array array_over(const constant_pages_ptr &pages, void *data, size_t bytes) {
    return py::array(py::dtype("uint8"), {static_cast<py::ssize_t>(bytes)},
            {static_cast<py::ssize_t>(1)}, data, owner_of(pages));
}

py::array allocate(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (size > static_cast<size_t>(PTRDIFF_MAX) - 2 * page) throw std::bad_alloc();
    const size_t bytes = (size + page) / page * page;  // never 0
    // Between 8 GB and 64 TB; the kernel takes another place where this one is taken.
    const uint64_t from = uint64_t{1} << 33, to = uint64_t{1} << 46;
    const uint64_t hint = (from + random_number() % (to - from)) / page * page;
    const auto pages = std::make_shared<constant_pages>(reinterpret_cast<void *>(hint), bytes);
    const size_t slack = (bytes - size) / alignment;
    return array_over(pages, pages->begin() + random_number() % (slack + 1) * alignment, size);
}

// Where an array lies, if it lies in memory of `allocate`.
std::optional<constant_place> place_of(const py::array &array) {
    py::object base = array.base();
    while (base && py::isinstance<py::array>(base)) base = py::array(base).base();
    if (!base || !PyCapsule_IsValid(base.ptr(), capsule_name)) return std::nullopt;
    const auto &pages =
            *static_cast<constant_pages_ptr *>(PyCapsule_GetPointer(base.ptr(), capsule_name));
    return constant_place{
            pages, const_cast<void *>(array.data()), static_cast<size_t>(array.nbytes())};
}

void without_gil(const std::function<void()> &body) {
    std::string fault;
    {
        const py::gil_scoped_release release;
        try {
            body();
        } catch (const std::runtime_error &e) {
            fault = e.what();
        }
    }
    if (!fault.empty()) raise_status(dnnl_unimplemented, "constants: " + fault);
}

}  // namespace

void init_constant_memory(py::module_ &m) {
    m.def(
            "_constant_memory", [](index_arg size) { return allocate(size); }, py::arg("size"),
            "Zeroed bytes, aligned to 64, at an address that no other constant is near to.\n\n"
            "Raises\n------\nMemoryError\n    The system has none.");
    m.def(
            "_is_constant_memory",
            [](const py::array &array) { return place_of(array).has_value(); }, py::arg("array"),
            "Whether an array is in memory of `_constant_memory`.");
    py::class_<constant_place>(m, "_constant_place",
            "Where a constant of `_constant_memory` lies. It holds the addresses, not the array.")
            .def(py::init([](const py::array &array) {
                auto found = place_of(array);
                if (!found) raise_invalid_arguments("the array is not in _constant_memory");
                return *found;
            }),
                    py::arg("array"))
            .def_property_readonly(
                    "nbytes", [](const constant_place &p) { return p.bytes; },
                    "The size of the array.")
            .def_property_readonly(
                    "owners", [](const constant_place &p) { return p.pages->owners.load(); },
                    "How many arrays that are not views of each other use the memory.")
            .def(
                    "rest",
                    [](const constant_place &p, const std::string &folder) {
                        if (p.pages->given_back())
                            raise_invalid_arguments("the memory was given back");
                        bool rests = false;
                        without_gil([&] { rests = p.pages->rest(folder); });
                        return rests;
                    },
                    py::arg("folder"),
                    "Let the bytes lie in a nameless file of a folder from now on, which the system\n"
                    "reads when somebody reads them; again, drop what was read. Return whether they\n"
                    "do: a folder may lie in memory.\n\n"
                    "Raises\n------\nUnimplementedError\n    The file can't be written.")
            .def_property_readonly(
                    "rests", [](const constant_place &p) { return p.pages->rests(); },
                    "Whether the bytes lie in a file.")
            .def(
                    "array",
                    [](const constant_place &p) {
                        if (p.pages->given_back())
                            raise_invalid_arguments("the memory was given back");
                        return array_over(p.pages, p.data, p.bytes);
                    },
                    "The bytes.")
            .def(
                    "watch",
                    [](const constant_place &p) { without_gil([&] { p.pages->watch(); }); },
                    "Begin to notice whether anybody reads the memory.\n\n"
                    "Raises\n------\nUnimplementedError\n    The system can't do that.")
            .def(
                    "were_read",
                    [](const constant_place &p) {
                        bool read = true;
                        without_gil([&] { read = p.pages->were_read(); });
                        return read;
                    },
                    "Whether anybody read the memory since `watch`.\n\n"
                    "Raises\n------\nUnimplementedError\n    The system does not tell.")
            .def(
                    "keep", [](const constant_place &p) { without_gil([&] { p.pages->keep(); }); },
                    "End `watch`.")
            .def(
                    "give_back",
                    [](const constant_place &p, const constant_cache_hold_ptr &hold) {
                        if (p.pages->owners)
                            raise_invalid_arguments("an array still uses the memory");
                        if (p.pages->given_back())
                            raise_invalid_arguments("the memory was given back");
                        const size_t bytes = p.pages->bytes();
                        without_gil([&] { p.pages->give_back(hold); });
                        return bytes;
                    },
                    py::arg("hold").none(false),
                    "End `watch`; return the number of bytes that the system has again. From then\n"
                    "on nobody may read the memory; `hold` keeps oneDNN from reading it.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    An array still uses the memory.");
}

}  // namespace ogp
