#include "stream.hpp"

#include "call.hpp"

namespace ogp {

dnnl::stream &stream::get() {
    if (!value) raise_invalid_arguments("stream: this stream is empty (default-constructed)");
    return value;
}

void init_stream(py::module_ &m) {
    py::class_<stream, stream_ptr> cls(m, "stream",
            "A queue of work on an engine. Mirrors ``dnnl::stream`` (oneDNN page: Basic Concepts).");
    define_enum<dnnl::stream::flags>(cls, "flags", flag_enum,
            "How a stream orders work; combine with ``|``. Mirrors ``dnnl::stream::flags``.");
    alias_enum<dnnl::stream::flags>(cls, cls.attr("flags"));

    cls.def(py::init<>(), "An empty stream; using it raises `InvalidArgumentsError`.")
            .def(py::init([](engine_ptr e, enum_arg<dnnl::stream::flags> flags) {
                auto made = std::make_shared<stream>();
                made->engine_ = std::move(e);
                made->flags = flags;
                made->engine_->get();
                call_onednn(
                        [&] {
                            made->value = dnnl::stream(made->engine_->value, made->flags);
                            return dnnl_success;
                        },
                        [&] { return "stream(" + repr(*made->engine_) + ")"; });
                return made;
            }),
                    py::arg("engine").none(false),
                    defaults_to("flags", dnnl::stream::flags::in_order),
                    "A stream on `engine`, which it keeps alive.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n"
                    "    The engine is empty, or can't do what `flags` ask for.")
            .def(
                    "get_engine",
                    [](stream &self) {
                        self.get();
                        return self.engine_;
                    },
                    "The engine that the stream was made with.")
            .def(
                    "wait",
                    [](stream_ptr self) {
                        self->get();
                        call_onednn(
                                [&] {
                                    self->value.wait();
                                    return dnnl_success;
                                },
                                [] { return std::string("stream.wait"); });
                        return self;
                    },
                    "Waits, without the GIL, until all submitted work is done; returns the stream.")
            .def(
                    "get",
                    [](stream &self) { return reinterpret_cast<uintptr_t>(self.get().get()); },
                    "Address of the C handle (``dnnl_stream_t``), for other extensions.")
            .def("__bool__", [](const stream &self) { return static_cast<bool>(self.value); })
            .def(
                    "__eq__",
                    [](const stream &self, const stream &other) {
                        return self.value == other.value;
                    },
                    py::is_operator())
            .def("__hash__",
                    [](const stream &self) { return std::hash<void *>()(self.value.get(true)); })
            .def("__repr__", [](const stream &self) -> std::string {
                if (!self.value) return "stream()";
                return "stream(" + repr(*self.engine_) + ")";
            });
}

}  // namespace ogp
