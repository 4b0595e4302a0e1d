// oneDNN's caches: compiled partitions, constant tensors, primitives.

#include "caches.hpp"

#include <condition_variable>
#include <limits>
#include <mutex>
#include <set>

#include "arguments.hpp"
#include "call.hpp"
#include "enums.hpp"
#include "errors.hpp"

namespace ogp {
namespace {

int to_capacity(const char *what, size_t value) {
    if (value > static_cast<size_t>(std::numeric_limits<int>::max()))
        raise_invalid_arguments(std::string(what) + ": " + std::to_string(value) + " is too large");
    return static_cast<int>(value);
}

template <typename Body>
void set(const char *what, Body &&body) {
    call_onednn(
            [&] {
                body();
                return dnnl_success;
            },
            [&] { return std::string(what); });
}

// Emptying sets the capacity to 0 and back; nobody else may set it in between.
std::mutex capacity_mutex;

// Who holds the cache of constants, and how many threads empty it now. The mutex is not held while
// oneDNN empties it, because that may call a Python allocator.
struct constant_cache_state {
    std::mutex mutex;
    std::condition_variable emptied;
    std::multiset<std::string> holders;
    size_t emptying = 0;
};

constant_cache_state &constant_cache() {
    static auto *state = new constant_cache_state;  // models may end after static objects
    return *state;
}

// Runs `body`, which empties the cache of constants, or raises where that is held.
template <typename Body>
void empty_constants(const char *what, Body &&body) {
    constant_cache_state &state = constant_cache();
    std::string holder;
    {
        const std::lock_guard<std::mutex> lock(state.mutex);
        if (state.holders.empty())
            ++state.emptying;
        else
            holder = "model '" + *state.holders.begin() + "'";
    }
    if (!holder.empty())
        raise_invalid_arguments(std::string(what) + ": the cache can't be emptied, which setting a "
                "capacity does: " + holder + " gave back its constants' memory (release_constants), "
                "and only the cache has them; drop the model first");
    struct end {
        ~end() {
            constant_cache_state &state = constant_cache();
            const std::lock_guard<std::mutex> lock(state.mutex);
            --state.emptying;
            state.emptied.notify_all();
        }
    } const end;
    set(what, body);
}

}  // namespace

constant_cache_hold::constant_cache_hold(std::string model) : model_(std::move(model)) {
    constant_cache_state &state = constant_cache();
    const py::gil_scoped_release release;
    std::unique_lock<std::mutex> lock(state.mutex);
    state.emptied.wait(lock, [&] { return state.emptying == 0; });
    state.holders.insert(model_);
}

constant_cache_hold::~constant_cache_hold() {
    constant_cache_state &state = constant_cache();
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.holders.erase(state.holders.find(model_));
}

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
    m.def("get_compiled_partition_cache_capacity", &dg::get_compiled_partition_cache_capacity,
            "Number of compiled partitions that oneDNN keeps.");
    m.def(
            "set_compiled_partition_cache_capacity",
            [](index_arg capacity) {
                const int c = to_capacity("set_compiled_partition_cache_capacity", capacity);
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
                return dg::get_constant_tensor_cache_capacity(kind);
            },
            py::arg("kind"), "Capacity of the constant tensor cache in MB.");
    m.def(
            "set_constant_tensor_cache_capacity",
            [](enum_arg<dnnl::engine::kind> kind, index_arg size) {
                const char *what = "set_constant_tensor_cache_capacity";
                const auto body = [&] { dg::set_constant_tensor_cache_capacity(kind, size); };
                if (kind == dnnl::engine::kind::cpu)
                    empty_constants(what, body);
                else
                    set(what, body);
            },
            py::arg("kind"), py::arg("size"),
            "Keeps up to `size` MB of preprocessed constants, such as reordered weights; 0, the\n"
            "default, keeps none. Flushes the cache; set it before compiling.\n\n"
            "Raises\n------\n"
            "InvalidArgumentsError\n"
            "    A model lives whose constants only the cache has (`release_constants`).\n\n"
            "Notes\n-----\n"
            "A constant is known by its partition's id and its ADDRESS: after other weights were\n"
            "written into the same memory the old ones are still used. oneDNN page: Graph API,\n"
            "Constant Tensor Cache.");
    m.def(
            "get_constant_tensor_cache", [] { return dg::get_constant_tensor_cache(); },
            "Whether the constant tensor cache is on (1) or off (0). Deprecated by oneDNN.");
    m.def(
            "set_constant_tensor_cache",
            [](index_arg flag) {
                const int value = to_capacity("set_constant_tensor_cache", flag);
                empty_constants(
                        "set_constant_tensor_cache", [&] { dg::set_constant_tensor_cache(value); });
            },
            py::arg("flag"),
            "Turns the constant tensor cache on (1) or off (0) for all engine kinds. Deprecated by\n"
            "oneDNN: use `set_constant_tensor_cache_capacity`, which raises alike.");
    py::class_<constant_cache_hold, constant_cache_hold_ptr>(m, "_constant_cache_hold",
            "While it lives, the cache of constants on CPUs can't be emptied.")
            .def(py::init<std::string>(), py::arg("model"));
    m.def("get_primitive_cache_capacity", &dnnl::get_primitive_cache_capacity,
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
