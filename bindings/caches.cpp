// oneDNN's caches: compiled partitions, constant tensors, primitives.

#include "caches.hpp"

#include <limits>
#include <mutex>

#include "arguments.hpp"
#include "cached_constants.hpp"
#include "call.hpp"
#include "constant_cache_hold.hpp"
#include "enums.hpp"
#include "errors.hpp"

namespace ogp {
namespace {

int to_capacity(const char *what, size_t value) {
    if (value > static_cast<size_t>(std::numeric_limits<int>::max()))
        raise_invalid_arguments(std::string(what) + ": " + std::to_string(value) + " is too large");
    return static_cast<int>(value);
}

template <typename Get>
auto get(const char *what, Get &&capacity) {
    const inside_onednn inside(no_threads, [&] { return std::string(what); });
    return capacity();
}

template <typename Body>
void set(const char *what, Body &&body) {
    call_onednn(
            [&] {
                body();
                return dnnl_success;
            },
            [&] { return std::string(what); }, 1);
}

void set(const char *what, dnnl::engine::kind kind, size_t capacity) {
    call_onednn([&] { return cached_constants::empty(kind, &capacity); },
            [&] { return std::string(what); }, 1);
}

// Emptying sets the capacity to 0 and back; nobody else may set it in between.
std::mutex capacity_mutex;

}  // namespace

void empty_compiled_partition_cache() noexcept {
    const std::lock_guard<std::mutex> lock(capacity_mutex);
    int capacity = 0;
    if (dnnl_graph_get_compiled_partition_cache_capacity(&capacity) != dnnl_success
            || capacity == 0)
        return;
    dnnl_graph_set_compiled_partition_cache_capacity(0);
    dnnl_graph_set_compiled_partition_cache_capacity(capacity);
}

void require_constant_cache(const std::string &context, bool cached, dnnl::engine::kind kind) {
    if (!cached || caches_constants(kind)) return;
    raise_invalid_arguments(context
            + ": the constant tensor cache was turned off after this was compiled with it; turn it on "
              "(set_constant_tensor_cache_capacity) or compile again");
}

void init_caches(py::module_ &m) {
    m.def(
            "get_compiled_partition_cache_capacity",
            [] {
                return get("get_compiled_partition_cache_capacity",
                        &dg::get_compiled_partition_cache_capacity);
            },
            "Number of compiled partitions that oneDNN keeps.");
    m.def(
            "set_compiled_partition_cache_capacity",
            [](index_arg capacity) {
                const int c = to_capacity("set_compiled_partition_cache_capacity", capacity);
                const kernel_destruction destruction;
                set("set_compiled_partition_cache_capacity", [&] {
                    const std::lock_guard<std::mutex> lock(capacity_mutex);
                    dg::set_compiled_partition_cache_capacity(c);
                });
            },
            py::arg("capacity"),
            "Keeps at most `capacity` compiled partitions; 0 turns the cache off.\n\n"
            "The cache is shared by the whole process: partitions of equal op ids, kinds, names,\n"
            "attributes and tensors are one entry, whatever graph they come from. oneDNN page: Graph\n"
            "API, Compiled Partition Cache.");
    m.def(
            "get_constant_tensor_cache_capacity",
            [](enum_arg<dnnl::engine::kind> kind) {
                return get("get_constant_tensor_cache_capacity",
                        [&] { return dg::get_constant_tensor_cache_capacity(kind); });
            },
            py::arg("kind"), "Capacity of the constant tensor cache in MB.");
    m.def(
            "set_constant_tensor_cache_capacity",
            [](enum_arg<dnnl::engine::kind> kind, index_arg size) {
                const char *what = "set_constant_tensor_cache_capacity";
                const constant_cache_emptying emptying;
                if (kind == dnnl::engine::kind::cpu) emptying.require(what);
                set(what, kind, size);
            },
            py::arg("kind"), py::arg("size"),
            "Keeps up to `size` MB of preprocessed constants, such as reordered weights; 0, the\n"
            "default, keeps none. Flushes the cache; set it before compiling.\n\n"
            "A constant is known by its partition's id and its ADDRESS: after other weights were\n"
            "written into the same memory the old ones are still used. oneDNN page: Graph API,\n"
            "Constant Tensor Cache.\n\n"
            "Raises\n------\n"
            "InvalidArgumentsError\n"
            "    A model lives whose constants only the cache has (`release_constants`).");
    m.def(
            "get_constant_tensor_cache",
            [] { return get("get_constant_tensor_cache", &dg::get_constant_tensor_cache); },
            "Whether the constant tensor cache is on (1) or off (0). Deprecated by oneDNN.");
    m.def(
            "set_constant_tensor_cache",
            [](index_arg flag) {
                const int value = to_capacity("set_constant_tensor_cache", flag);
                const constant_cache_emptying emptying;
                emptying.require("set_constant_tensor_cache");
                for (const auto kind : {dnnl::engine::kind::cpu, dnnl::engine::kind::gpu})
                    set("set_constant_tensor_cache", kind, value ? SIZE_MAX : 0);
            },
            py::arg("flag"),
            "Turns the constant tensor cache on (1) or off (0) for all engine kinds. Deprecated by\n"
            "oneDNN: use `set_constant_tensor_cache_capacity`, which raises alike.");
    m.def(
            "get_primitive_cache_capacity",
            [] { return get("get_primitive_cache_capacity", &dnnl::get_primitive_cache_capacity); },
            "Number of primitives that oneDNN keeps.");
    m.def(
            "set_primitive_cache_capacity",
            [](index_arg capacity) {
                const int c = to_capacity("set_primitive_cache_capacity", capacity);
                set("set_primitive_cache_capacity", [&] { dnnl::set_primitive_cache_capacity(c); });
            },
            py::arg("capacity"),
            "Keeps at most `capacity` primitives; 0 turns the cache off. oneDNN page: Primitive Cache.");
}

}  // namespace ogp
