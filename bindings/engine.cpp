#include "engine.hpp"

#include "arguments.hpp"
#include "call.hpp"
#include "cpu_runtime.hpp"

namespace ogp {

const dnnl::engine &engine::get() const {
    if (!value) raise_invalid_arguments("engine: this engine is empty (default-constructed)");
    return value;
}

dnnl::stream engine::take_stream() {
    if (idle_streams.empty() || !forks::is_free()) return {};
    dnnl::stream taken = std::move(idle_streams.back());
    idle_streams.pop_back();
    return taken;
}

void engine::give_stream(dnnl::stream &&given) noexcept {
    if (!given) return;
    try {
        idle_streams.push_back(std::move(given));
    } catch (const std::bad_alloc &) {
    }
}

std::string repr(const engine &e) {
    if (!e.value) return "engine()";
    return "engine(" + enum_name(e.kind()) + ", " + std::to_string(e.index)
            + (e.allocator_ ? ", with allocator" : "") + ")";
}

namespace {

size_t count_of(dnnl::engine::kind kind) {
    const inside_onednn inside(1, [&] { return "engine.get_count(" + enum_name(kind) + ")"; });
    const size_t count = dnnl::engine::get_count(kind);
    if (count) note_threads(1, survives_fork(kind));
    return count;
}

engine_ptr make_engine(
        dnnl::engine::kind kind, size_t index, std::shared_ptr<allocator> with_allocator) {
    const auto context = [&] {
        return "engine(" + enum_name(kind) + ", " + std::to_string(index) + ")";
    };
    const size_t count = count_of(kind);
    if (count == 0)
        raise_invalid_arguments(context() + ": there are no engines of this kind here"
                + (kind == dnnl::engine::kind::cpu ? no_engine_hint() : ""));
    if (index >= count)
        raise_invalid_arguments(context() + ": there are " + std::to_string(count)
                + " engines of this kind here, so index must be below " + std::to_string(count));
    auto made = std::make_shared<engine>();
    made->allocator_ = std::move(with_allocator);
    made->index = index;
    call_onednn(
            [&] {
                made->value = made->allocator_
                        ? dg::make_engine_with_allocator(kind, index, made->allocator_->value)
                        : dnnl::engine(kind, index);
                return dnnl_success;
            },
            context, 1);
    return made;
}

}  // namespace

void init_engine(py::module_ &m) {
    py::class_<engine, engine_ptr> cls(m, "engine",
            "A device that computes. Mirrors ``dnnl::engine`` (oneDNN page: Basic Concepts, engine).\n\n"
            "Everything made from an engine keeps it alive.");
    define_enum<dnnl::engine::kind>(
            cls, "kind", plain_enum, "Kind of device. Mirrors ``dnnl::engine::kind``.");
    alias_enum<dnnl::engine::kind>(cls, cls.attr("kind"));

    cls.def(py::init<>(), "An empty engine; using it raises `InvalidArgumentsError`.")
            .def(py::init([](enum_arg<dnnl::engine::kind> kind, index_arg index) {
                return make_engine(kind, index, nullptr);
            }),
                    py::arg("kind"), py::arg("index"),
                    "The `index`-th engine of a kind.\n\n"
                    "Parameters\n----------\n"
                    "kind : engine.kind or str\n    ``cpu`` or ``gpu``.\n"
                    "index : int\n    Below ``engine.get_count(kind)``.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    There is no such engine here.")
            .def_static(
                    "get_count", [](enum_arg<dnnl::engine::kind> kind) { return count_of(kind); },
                    py::arg("kind"), "How many engines of a kind there are.")
            .def("get_kind", &engine::kind, "Kind of this engine.")
            .def(
                    "get",
                    [](const engine &self) {
                        return reinterpret_cast<uintptr_t>(self.get().get());
                    },
                    "Address of the C handle (``dnnl_engine_t``), for other extensions.")
            .def("__bool__", [](const engine &self) { return static_cast<bool>(self.value); })
            .def(
                    "__eq__",
                    [](const engine &self, const engine &other) {
                        return self.value == other.value;
                    },
                    py::is_operator())
            .def("__hash__",
                    [](const engine &self) { return std::hash<void *>()(self.value.get(true)); })
            .def("__repr__", [](const engine &self) { return repr(self); });

    m.def(
            "make_engine_with_allocator",
            [](enum_arg<dnnl::engine::kind> kind, index_arg index,
                    std::shared_ptr<allocator> alloc) {
#ifdef DNNL_WITH_SYCL
                // oneDNN ignores host functions where memory belongs to SYCL.
                raise_status(dnnl_unimplemented,
                        "make_engine_with_allocator: this oneDNN takes its memory from SYCL and "
                        "ignores a host allocator");
#endif
                return make_engine(kind, index, std::move(alloc));
            },
            py::arg("kind"), py::arg("index"), py::arg("alloc").none(false),
            "An engine that takes host memory from `alloc`.\n\n"
            "Mirrors ``dnnl::graph::make_engine_with_allocator``.\n\n"
            "Raises\n------\nInvalidArgumentsError\n    There is no such engine here.\n"
            "UnimplementedError\n    The linked oneDNN takes memory from SYCL.");
}

}  // namespace ogp
