// Process-wide settings of oneDNN, and what build of it is linked.

#include <cstdio>
#include <sstream>

#include "arguments.hpp"
#include "call.hpp"
#include "enums.hpp"

namespace ogp {
namespace {

std::string runtime_name(unsigned runtime) {
    switch (runtime) {
        case DNNL_RUNTIME_NONE:
            return "none";
        case DNNL_RUNTIME_SEQ:
            return "sequential";
        case DNNL_RUNTIME_OMP:
            return "OpenMP";
        case DNNL_RUNTIME_TBB:
            return "TBB";
        case DNNL_RUNTIME_THREADPOOL:
            return "threadpool";
        case DNNL_RUNTIME_OCL:
            return "OpenCL";
        case DNNL_RUNTIME_SYCL:
            return "SYCL";
        case 1024U:
            return "Level Zero";
        default:
            return "unknown(" + std::to_string(runtime) + ")";
    }
}

py::typing::Dict<py::str, py::object> version_dict() {
    const dnnl_version_t *v = dnnl_version();
    py::typing::Dict<py::str, py::object> result;
    result["major"] = v->major;
    result["minor"] = v->minor;
    result["patch"] = v->patch;
    result["hash"] = v->hash;
    result["cpu_runtime"] = runtime_name(v->cpu_runtime);
    result["gpu_runtime"] = runtime_name(v->gpu_runtime);
    result["headers"] = std::to_string(DNNL_VERSION_MAJOR) + "."
            + std::to_string(DNNL_VERSION_MINOR) + "." + std::to_string(DNNL_VERSION_PATCH);
    return result;
}

// A setter that answers with a status: raised unless it is success.
dg::status done(dnnl::status status, const std::string &context) {
    if (status != dnnl::status::success) raise_failure(static_cast<dnnl_status_t>(status), context);
    return dg::status::success;
}

dg::status set_verbose(int level) {
    return done(dnnl::set_verbose(level),
            "set_verbose(" + std::to_string(level) + ") (levels are 0, 1 and 2)");
}

}  // namespace

void init_settings(py::module_ &m) {
    m.def("version", &version_dict,
            "The linked oneDNN.\n\n"
            "Returns\n-------\ndict\n"
            "    ``major``, ``minor``, ``patch`` and ``hash`` of the library, its ``cpu_runtime`` and\n"
            "    ``gpu_runtime``, and the version of the ``headers`` this package was built with.");
    m.def("set_verbose", &set_verbose, py::arg("level"),
            "Has oneDNN print what it does: 0 nothing, 1 executions, 2 also creations.\n\n"
            "oneDNN page: Verbose Mode. `OneDNNError.reason` needs no level.\n\n"
            "Raises\n------\nInvalidArgumentsError\n    Another level.");
    m.def(
            "set_dump_mode",
#if OGP_ONEDNN_AT_LEAST(3, 11)
            [](enum_arg<dg::graph_dump_mode> modes) {
                return done(static_cast<dnnl::status>(dg::set_dump_mode(modes)),
                        "set_dump_mode (it needs a oneDNN built with ONEDNN_ENABLE_GRAPH_DUMP)");
            },
#else
            [](const py::object &) -> dg::status { raise_needs_version("set_dump_mode", "3.11"); },
#endif
            py::arg("modes"),
            "Has oneDNN write graphs as JSON into the current directory (oneDNN 3.11).\n\n"
            "Parameters\n----------\nmodes : graph_dump_mode or str\n\n"
            "Raises\n------\nUnimplementedError\n    The linked oneDNN is older.\n"
            "InvalidArgumentsError\n    It was built without graph dump.");
    m.def("get_default_fpmath_mode", &dnnl::get_default_fpmath_mode,
            "Floating-point math mode of new primitives.");
    m.def(
            "set_default_fpmath_mode",
            [](enum_arg<dnnl::fpmath_mode> mode) {
                return done(dnnl::set_default_fpmath_mode(mode), "set_default_fpmath_mode");
            },
            py::arg("mode"), "Sets the floating-point math mode of new primitives and graphs.");
    m.def(
            "set_max_cpu_isa",
            [](enum_arg<dnnl::cpu_isa> isa) {
                return done(dnnl::set_max_cpu_isa(isa),
                        "set_max_cpu_isa(" + enum_name(isa.value)
                                + ") (it must be the first use of oneDNN in the process)");
            },
            py::arg("isa"),
            "Uses no instruction set above `isa`. oneDNN page: CPU Dispatcher Control.\n\n"
            "Raises\n------\nInvalidArgumentsError\n    oneDNN has fixed its instruction set already.");
    m.def("get_effective_cpu_isa", &dnnl::get_effective_cpu_isa,
            "The instruction set that oneDNN dispatches to on this CPU.");
    m.def(
            "set_cpu_isa_hints",
            [](enum_arg<dnnl::cpu_isa_hints> hints) {
                return done(dnnl::set_cpu_isa_hints(hints),
                        "set_cpu_isa_hints (it must be the first use of oneDNN in the process)");
            },
            py::arg("isa_hints"), "Sets hints for the CPU dispatcher.");
    m.def("get_cpu_isa_hints", &dnnl::get_cpu_isa_hints, "The hints of the CPU dispatcher.");
    m.def(
            "set_jit_dump",
            [](bool enable) { return done(dnnl::set_jit_dump(enable ? 1 : 0), "set_jit_dump"); },
            py::arg("enable").noconvert(),
            "Has oneDNN write each generated kernel into the current directory. oneDNN page:\n"
            "Inspecting JIT Code.");
    m.def(
            "set_jit_profiling_flags",
            [](index_arg flags) {
                if (flags.value > 0xFFFFFFFFU)
                    raise_invalid_arguments("set_jit_profiling_flags: flags must fit into 32 bits");
                return done(dnnl::set_jit_profiling_flags(static_cast<unsigned>(flags.value)),
                        "set_jit_profiling_flags(" + std::to_string(flags.value) + ")");
            },
            py::arg("flags"),
            "Chooses the profilers that are told of generated kernels (0 none, 1 VTune, 2 perfmap,\n"
            "4 jitdump). oneDNN page: Profiling oneDNN Performance.");
    m.def(
            "set_jit_profiling_jitdumpdir",
            [](const std::string &dir) {
                return done(
                        dnnl::set_jit_profiling_jitdumpdir(dir), "set_jit_profiling_jitdumpdir");
            },
            py::arg("dir"), "Chooses where jitdump files go.");
}

}  // namespace ogp
