#include "library.hpp"

#include <dlfcn.h>

#include "common.hpp"

namespace ogp {
namespace {

std::string file_of(const void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return "";
    return info.dli_fname;
}

// A function of a loaded library or of the libraries that it needs.
void *function_of(const std::string &file, const char *name) {
    if (file.empty()) return nullptr;
    void *library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return nullptr;
    void *function = dlsym(library, name);
    dlclose(library);
    return function;
}

}  // namespace

std::string library_file() { return file_of(reinterpret_cast<const void *>(&dnnl_version)); }

void *library_function(const char *name) { return function_of(library_file(), name); }

std::string sycl_runtime_of(const std::string &file) {
    // sycl::device::is_cpu() const, which every SYCL program may call.
    void *function = function_of(file, "_ZNK4sycl3_V16device6is_cpuEv");
    return function ? file_of(function) : "";
}

bool runs_on_sycl() {
    const dnnl_version_t *v = dnnl_version();
    return v->cpu_runtime == DNNL_RUNTIME_SYCL || v->gpu_runtime == DNNL_RUNTIME_SYCL;
}

}  // namespace ogp
