// Hooks for this package's own tests and benchmarks, under _core._test.

#include "execution.hpp"

#include "address.hpp"
#include "arguments.hpp"
#include "call.hpp"

namespace ogp {

void init_testing(py::module_ &m) {
    auto test = m.def_submodule("_test", "Hooks for this package's own tests; no API.");
    test.def("raise_status", [](int status) {
        throw dnnl::error(static_cast<dnnl_status_t>(status), "provoked by a test");
    }, py::arg("status"), "Throws dnnl::error of a status, as oneDNN's C++ API would.");
    test.def("call_status", [](int status) {
        call_onednn([&] { return static_cast<dnnl_status_t>(status); },
                [] { return std::string("a test"); });
    }, py::arg("status"), "A oneDNN call that answers with a status.");
    test.def("throw_length_error", [] { throw std::length_error("provoked by a test"); },
            "Throws what an unchecked size makes oneDNN throw.");
    test.def("throw_bad_alloc", [] { throw std::bad_alloc(); }, "Throws what lack of memory does.");
    test.def("time_execute", &time_execute, py::arg("compiled_partition"), py::arg("stream"),
            py::arg("inputs"), py::arg("outputs"), py::arg("count"),
            "Seconds that `count` calls take from a C++ loop.");
    test.def("is_mapped", [](index_arg address, index_arg size) {
        return address_range_of(reinterpret_cast<void *>(address.value), size).readable;
    }, py::arg("address"), py::arg("size"), "Whether an address range is readable memory.");
}

}  // namespace ogp
