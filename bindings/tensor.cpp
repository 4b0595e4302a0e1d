#include "tensor.hpp"

#include "arguments.hpp"
#include "call.hpp"
#include "dtypes.hpp"
#include "library.hpp"
#include "python_hooks.hpp"

namespace ogp {

void tensor::require() const {
    if (!value) raise_invalid_arguments("tensor: this tensor is empty (default-constructed)");
}

std::string repr(const tensor &t) {
    if (!t.value) return "tensor()";
    return "tensor(" + describe(t.lt) + ", " + std::to_string(t.memory->bytes) + " bytes"
            + (t.memory->writable ? "" : ", read-only") + ")";
}

namespace {

constexpr auto host_scalar_since = "3.9";

void check_engine(const engine &e, const logical_tensor &lt) {
    if (e.kind() != dnnl::engine::kind::cpu)
        raise_status(dnnl_unimplemented,
                "tensor of " + repr(lt) + ": memory on engine kind " + enum_name(e.kind())
                        + " is not supported yet, use a cpu engine");
}

memory_ptr memory_for(const logical_tensor &lt, const engine_ptr &e, py::handle data) {
    // Which memory a SYCL engine reaches, Python knows through dpctl.
    if (runs_on_sycl() && is_usm(data))
        return tensor_of_usm(lt, e, data).cast<std::shared_ptr<tensor>>()->memory;
    check_engine(*e, lt);
    return memory_from_python(data, lt);
}

std::shared_ptr<tensor> wrap(const logical_tensor &lt, engine_ptr e, py::handle data) {
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->memory = memory_for(lt, e, data);
    made->engine_ = std::move(e);
    made->value = dg::tensor(lt.cpp(), made->engine_->get(), made->memory->data);
    return made;
}

std::shared_ptr<tensor> allocate_tensor(const logical_tensor &lt, engine_ptr e) {
    check_engine(*e, lt);
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->engine_ = std::move(e);
    made->memory = std::make_shared<memory_block>();
    made->memory->owner = py::none();
    made->memory->bytes = required_bytes(lt);
    made->memory->library_engine = made->engine_;
    if (lt.get().layout_type == dnnl_graph_layout_type_strided && made->memory->bytes == 0) {
        made->value = dg::tensor(lt.cpp(), made->engine_->get(), nullptr);
        return made;
    }
    size_t library_bytes = lt.cpp().get_mem_size();
    if (library_bytes < made->memory->bytes)
        raise_invalid_shape("tensor of " + repr(lt) + ": its strides overlap, and oneDNN would "
                "allocate too little for them; pass memory of "
                + std::to_string(made->memory->bytes) + " bytes");
    call_onednn(
            [&] {
                made->value = dg::tensor(lt.cpp(), made->engine_->get());
                return dnnl_success;
            },
            [&] {
                return "tensor of " + repr(lt) + ": allocating "
                        + std::to_string(made->memory->bytes) + " bytes";
            },
            1);
    made->memory->library_tensor = made->value;
    made->memory->data = made->value.get_data_handle();
    return made;
}

std::shared_ptr<tensor> make_scalar(const logical_tensor &lt, const py::object &scalar) {
#if OGP_ONEDNN_AT_LEAST(3, 9)
    if (lt.get().property != dnnl_graph_tensor_property_host_scalar)
        raise_invalid_arguments("make_scalar_tensor: " + repr(lt)
                + " must have the property host_scalar, it has " + enum_name(lt.property()));
    if (lt.ndims() != 0)
        raise_invalid_shape("make_scalar_tensor: " + repr(lt) + " must be a scalar (no dims)");
    const py::dtype dtype = numpy_dtype(lt.dtype());
    const py::object np = py::module_::import("numpy");
    const py::array given = np.attr("asarray")(scalar);
    if (given.ndim() != 0)
        raise_invalid_shape("make_scalar_tensor: expected one number, got an array of "
                + std::to_string(given.ndim()) + " dims");
    if (std::string("OUSMmc").find(given.dtype().kind()) != std::string::npos)
        throw py::type_error("make_scalar_tensor: expected a number, got "
                + py::repr(scalar).cast<std::string>());
    const py::array value = given.attr("astype")(dtype);
    // A value that its type can't hold would be wrapped or cut silently.
    const bool integral = lt.dtype() == data_type::s32
#if OGP_ONEDNN_AT_LEAST(3, 12)
            || lt.dtype() == data_type::s64
#endif
            || lt.dtype() == data_type::s8 || lt.dtype() == data_type::u8;
    if (integral && !np.attr("array_equal")(given, value).cast<bool>())
        raise_invalid_arguments("make_scalar_tensor: " + py::str(scalar).cast<std::string>()
                + " does not fit into " + enum_name(lt.dtype()));
    auto made = std::make_shared<tensor>();
    made->lt = lt;
    made->engine_ = std::make_shared<engine>();
    made->memory = std::make_shared<memory_block>();
    made->memory->owner = value;
    made->memory->data = const_cast<void *>(value.data());
    made->memory->bytes = static_cast<size_t>(value.nbytes());
    made->memory->writable = false;
    made->value = dg::tensor::make_scalar_tensor(lt.cpp(), made->memory->data);
    return made;
#else
    (void)lt;
    (void)scalar;
    raise_needs_version("tensor.make_scalar_tensor", host_scalar_since);
#endif
}

}  // namespace

void init_tensor(py::module_ &m) {
    py::class_<tensor, std::shared_ptr<tensor>>(m, "tensor",
            "A logical tensor with memory. Mirrors ``dnnl::graph::tensor`` (oneDNN page: Graph API,\n"
            "Basic Concepts).\n\n"
            "The memory is used in place, never copied, and kept alive. It comes from\n\n"
            "- a NumPy array of the same dtype, shape and strides (ml_dtypes for bf16, f8_e4m3 and\n"
            "  f8_e5m2), or a flat array of just the right size, which is taken as raw memory;\n"
            "- a DLPack producer on the CPU, such as a torch tensor; with a oneDNN that runs on\n"
            "  SYCL also one on a device of the engine's context, such as a dpnp array;\n"
            "- an object with the buffer protocol; flat bytes are taken as raw memory;\n"
            "- an integer address of mapped memory, which the caller must keep alive;\n"
            "- oneDNN, when no `data` is given.\n\n"
            "s4 and u4 are packed two to a byte, the first in the low half: a flat uint8 array.\n\n"
            "Parameters\n----------\n"
            "lt : logical_tensor\n    Of known dims; strided or opaque.\n"
            "engine : engine\n"
            "data : array, DLPack producer, buffer or int, optional\n\n"
            "Raises\n------\n"
            "InvalidShapeError\n    Too small, another shape or other strides.\n"
            "InvalidDataTypeError\n    Another dtype.\n"
            "InvalidArgumentsError\n    Misaligned, on another device, or not mapped memory.")
            .def(py::init<>(), "An empty tensor; using it raises `InvalidArgumentsError`.")
            .def(py::init(&wrap), py::arg("lt"), py::arg("engine").none(false),
                    py::arg("data").none(false), "Over memory that exists.")
            .def(py::init(&allocate_tensor), py::arg("lt"), py::arg("engine").none(false),
                    "Over memory that oneDNN allocates; it is not initialised.")
            .def_static("make_scalar_tensor", &make_scalar, py::arg("lt"), py::arg("scalar"),
                    "A scalar on the host, of property ``host_scalar`` (oneDNN 3.9).\n\n"
                    "The value is copied.\n\n"
                    "Raises\n------\nUnimplementedError\n    The linked oneDNN is older.\n"
                    "InvalidArgumentsError\n    The value does not fit the data type.")
            .def(
                    "get_data_handle",
                    [](const tensor &self) {
                        self.require();
                        return reinterpret_cast<uintptr_t>(self.memory->data);
                    },
                    "Address of the first element.")
            .def(
                    "set_data_handle",
                    [](tensor &self, py::handle data) {
                        self.require();
                        if (!self.engine_->value)
                            raise_invalid_arguments(
                                    repr(self) + ": a host scalar can't get other memory");
                        if (self.in_use)
                            raise_invalid_arguments(repr(self)
                                    + ": can't change its memory while an execute runs on it");
                        memory_ptr memory = memory_for(self.lt, self.engine_, data);
                        self.value = dg::tensor(self.lt.cpp(), self.engine_->get(), memory->data);
                        self.memory = std::move(memory);
                        ++self.generation;
                    },
                    py::arg("data").none(false),
                    "Uses other memory from now on, checked as in the constructor; the old memory\n"
                    "is let go.")
            .def(
                    "get_engine",
                    [](const tensor &self) {
                        self.require();
                        if (!self.engine_->value)
                            raise_invalid_arguments(repr(self) + ": a host scalar has no engine");
                        return self.engine_;
                    },
                    "The engine that the tensor was made with.")
            .def(
                    "get_logical_tensor",
                    [](const tensor &self) {
                        self.require();
                        return self.lt;
                    },
                    "The logical tensor.")
            .def(
                    "numpy",
                    [](const tensor &self) {
                        self.require();
                        return numpy_view(self.memory, self.lt);
                    },
                    "The memory as a NumPy array, without a copy.\n\n"
                    "Returns\n-------\nnumpy.ndarray\n"
                    "    With the tensor's shape and strides; flat uint8 for opaque layouts, s4 and u4.\n"
                    "    It keeps the memory alive, and is read-only where the memory is.")
            .def(
                    "__array__",
                    [](const tensor &self, const py::object &dtype, const py::object &copy) {
                        self.require();
                        py::object view = numpy_view(self.memory, self.lt);
                        const bool convert = !dtype.is_none()
                                && !py::dtype::from_args(dtype).equal(view.attr("dtype"));
                        if (convert && !copy.is_none() && !copy.cast<bool>())
                            throw py::value_error(repr(self) + ": another dtype needs a copy");
                        if (convert) return py::object(view.attr("astype")(dtype));
                        if (!copy.is_none() && copy.cast<bool>())
                            return py::object(view.attr("copy")());
                        return view;
                    },
                    py::arg("dtype") = py::none(), py::arg("copy") = py::none())
            .def(
                    "__dlpack__",
                    [](const tensor &self, const py::object &stream, const py::object &max_version,
                            const py::object &device, const py::object &copy) {
                        self.require();
                        if (!stream.is_none())
                            throw py::buffer_error(
                                    "__dlpack__: stream must be None on the CPU and with SYCL");
                        if (!copy.is_none() && copy.cast<bool>())
                            throw py::buffer_error("__dlpack__: no copies are made");
                        return dlpack_capsule(self.memory, self.lt, max_version, device);
                    },
                    py::kw_only(), py::arg("stream") = py::none(),
                    py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
                    py::arg("copy") = py::none())
            .def("__dlpack_device__",
                    [](const tensor &self) {
                        self.require();
                        return dlpack_device_of(*self.memory, self.lt);
                    })
            .def_property_readonly(
                    "__sycl_usm_array_interface__",
                    [](const tensor &self) -> py::object {
                        self.require();
                        return usm_array_interface(self.memory, self.lt);
                    },
                    "How SYCL's arrays (dpnp) see memory of SYCL; other tensors have no such\n"
                    "attribute. Getting it waits for the execution that writes the memory.")
            .def(
                    "get",
                    [](const tensor &self) {
                        self.require();
                        return reinterpret_cast<uintptr_t>(self.value.get());
                    },
                    "Address of the C handle (``dnnl_graph_tensor_t``), for other extensions.")
            .def("__bool__", [](const tensor &self) { return static_cast<bool>(self.value); })
            .def("__repr__", [](const tensor &self) { return repr(self); });
}

}  // namespace ogp
