// dnnl_status_t -> typed Python exceptions; the only place that knows the mapping.
#pragma once

#include <string>

#include "common.hpp"

namespace ogp {

// Raises the Python exception of `status`, with `message` as its text. Needs the GIL.
// `call` is what oneDNN refused, as plain values, for OneDNNError.reason; null if nothing is known.
[[noreturn]] void raise_status(
        dnnl_status_t status, const std::string &message, const py::object &call = {});

// Our own validation speaks through the same exceptions as the library.
[[noreturn]] void raise_invalid_arguments(const std::string &message);
[[noreturn]] void raise_invalid_shape(const std::string &message);
[[noreturn]] void raise_invalid_data_type(const std::string &message);
[[noreturn]] void raise_invalid_graph(const std::string &message);
[[noreturn]] void raise_invalid_graph_op(const std::string &message);

// "<member> needs oneDNN >= <since>; this package is linked against <version>".
std::string needs_version(const std::string &member, const std::string &since);
[[noreturn]] void raise_needs_version(const std::string &member, const std::string &since);

std::string status_name(dnnl_status_t status);

}  // namespace ogp
