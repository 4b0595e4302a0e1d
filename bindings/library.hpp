// Functions of the linked oneDNN that only some of its builds have, and the libraries they use.
#pragma once

#include <string>

namespace ogp {

// The address of one of the linked oneDNN's functions, or null.
void *library_function(const char *name);

template <typename Function>
void find(Function &function, const char *name) {
    function = reinterpret_cast<Function>(library_function(name));
}

// The file of the SYCL runtime that a loaded library uses; empty where it uses none. Objects of one
// runtime mean nothing to another.
std::string sycl_runtime_of(const std::string &library_file);

// The file of the linked oneDNN.
std::string library_file();

// Whether the linked oneDNN runs on SYCL, on CPU or GPU.
bool runs_on_sycl();

}  // namespace ogp
