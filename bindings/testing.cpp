// Hooks for this package's own tests and benchmarks, under _core._test.

#include "execution.hpp"

#include "address.hpp"
#include "arguments.hpp"
#include "call.hpp"
#include "op.hpp"

namespace ogp {
namespace {

// A class, not a submodule, so that one stub file describes the extension.
struct test_hooks {};

}  // namespace

void init_testing(py::module_ &m) {
    py::class_<test_hooks> test(m, "_test", "Hooks for this package's own tests; no API.");
    test.def_static(
            "raise_status",
            [](int status) {
                throw dnnl::error(static_cast<dnnl_status_t>(status), "provoked by a test");
            },
            py::arg("status"), "Throws dnnl::error of a status, as oneDNN's C++ API would.");
    test.def_static(
            "call_status",
            [](int status) {
                call_onednn([&] { return static_cast<dnnl_status_t>(status); },
                        [] { return std::string("a test"); });
            },
            py::arg("status"), "A oneDNN call that answers with a status.");
    test.def_static(
            "throw_length_error", [] { throw std::length_error("provoked by a test"); },
            "Throws what an unchecked size makes oneDNN throw.");
    test.def_static(
            "throw_bad_alloc", [] { throw std::bad_alloc(); }, "Throws what lack of memory does.");
    test.def_static("time_execute", &time_execute, py::arg("compiled_partition"), py::arg("stream"),
            py::arg("inputs"), py::arg("outputs"), py::arg("count"),
            "Seconds that `count` calls take from a C++ loop.");
    test.def_static(
            "library_takes",
            [](const op &o) {
                dg::graph g(dnnl::engine::kind::cpu);
                return g.add_op(o.cpp(), false) == dg::status::success;
            },
            py::arg("op"), "Whether oneDNN itself takes an op, without any check of ours.");
    test.def_static(
            "is_mapped",
            [](index_arg address, index_arg size) {
                return address_range_of(reinterpret_cast<void *>(address.value), size).readable;
            },
            py::arg("address"), py::arg("size"), "Whether an address range is readable memory.");
}

}  // namespace ogp
