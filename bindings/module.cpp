// onednn_graph_py._core: the mirror of dnnl::graph.

#include "common.hpp"

// pybind11's defaults: a free-threaded Python enables the GIL, which guards much of what follows,
// and subinterpreters are refused (loading/interpreter.py does so where Python can't).
PYBIND11_MODULE(_core, m) {
    m.doc() = "The mirror of oneDNN's C++ Graph API; import onednn_graph_py instead.";
    m.attr("__version__") = ONEDNN_GRAPH_PY_VERSION;

    // A class must be known before a signature or default argument names it.
    ogp::init_enums(m);
    ogp::init_errors(m);
    ogp::init_allocator(m);
    ogp::init_engine(m);
    ogp::init_stream(m);
    ogp::init_logical_tensor(m);
    ogp::init_tensor(m);
    ogp::init_op(m);
    ogp::init_compiled_partition(m);
    ogp::init_execution(m);
    ogp::init_device_allocator(m);
    ogp::init_sycl_interop(m);
    ogp::init_ocl_interop(m);
    ogp::init_cpu_runtime(m);
    ogp::init_constant_cache_hold(m);
    ogp::init_forked(m);
    ogp::init_constant_memory(m);
    ogp::init_executor(m);
    ogp::init_recorder(m);
    ogp::init_partition(m);
    ogp::init_graph(m);
    ogp::init_caches(m);
    ogp::init_settings(m);
    ogp::init_testing(m);
    ogp::init_classes(m);  // last: it goes through all classes
}
