#include "logical_tensor.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "arguments.hpp"
#include "call.hpp"
#include "dtypes.hpp"

namespace ogp {
namespace {

constexpr auto max_ndims = DNNL_MAX_NDIMS;
// Sizes beyond this can't be memory; staying below it keeps every later product from overflowing.
constexpr int64_t max_bytes = int64_t{1} << 60;

std::mutex opaque_mutex;
std::unordered_map<size_t, std::vector<dnnl_graph_logical_tensor_t>> opaque_layouts;

bool same_dims(const dnnl_graph_logical_tensor_t &a, const dnnl_graph_logical_tensor_t &b) {
    return a.ndims == b.ndims && (a.ndims <= 0 || std::equal(a.dims, a.dims + a.ndims, b.dims));
}

bool knows_opaque_layout(const dnnl_graph_logical_tensor_t &lt) {
    std::lock_guard<std::mutex> lock(opaque_mutex);
    const auto it = opaque_layouts.find(lt.layout.layout_id);
    if (it == opaque_layouts.end()) return false;
    return std::any_of(it->second.begin(), it->second.end(), [&](const auto &seen) {
        return same_dims(seen, lt) && seen.data_type == lt.data_type;
    });
}

std::string prefix(size_t id) { return "logical_tensor " + std::to_string(id) + ": "; }

std::string join(const dims &values) {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i)
        text += (i ? ", " : "")
                + (values[i] == DNNL_GRAPH_UNKNOWN_DIM ? std::string("unknown")
                                                       : std::to_string(values[i]));
    return "[" + text + "]";
}

void check_dims(size_t id, data_type dtype, const dims &shape) {
    if (shape.size() > static_cast<size_t>(max_ndims))
        raise_invalid_shape(prefix(id) + "dims has " + std::to_string(shape.size())
                + " entries, oneDNN takes at most " + std::to_string(max_ndims));
    // undef is allowed here: such a tensor is refused when an op takes it.
    const int64_t item = dtype == data_type::undef ? 1 : std::max(1, info_of(dtype).bits / 8);
    int64_t size = item;
    for (int64_t d : shape) {
        if (d == DNNL_GRAPH_UNKNOWN_DIM) continue;
        if (d < 0)
            raise_invalid_shape(prefix(id) + "dims " + join(shape) + " has a negative entry "
                    + std::to_string(d) + "; use -1 or None for an unknown dimension");
        if (d > 0 && size > max_bytes / d)
            raise_invalid_shape(
                    prefix(id) + "dims " + join(shape) + " has more elements than memory can hold");
        if (d > 0) size *= d;
    }
}

logical_tensor with_dims(
        size_t id, data_type dtype, const dims &shape, layout_type layout, property_type property) {
    check_dims(id, dtype, shape);
    if (layout == layout_type::opaque)
        raise_invalid_arguments(prefix(id) + "layout_type opaque needs the layout id that oneDNN "
                "gave: pass layout_id, or use compiled_partition.query_logical_tensor");
    dnnl_graph_logical_tensor_t c;
    const auto ndims = static_cast<int32_t>(shape.size());
    const auto status = ndims == 0
            ? dnnl_graph_logical_tensor_init(&c, id, static_cast<dnnl_data_type_t>(dtype), 0,
                      static_cast<dnnl_graph_layout_type_t>(layout),
                      static_cast<dnnl_graph_tensor_property_t>(property))
            : dnnl_graph_logical_tensor_init_with_dims(&c, id, static_cast<dnnl_data_type_t>(dtype),
                      ndims, shape.data(), static_cast<dnnl_graph_layout_type_t>(layout),
                      static_cast<dnnl_graph_tensor_property_t>(property));
    if (status != dnnl_success)
        raise_failure(status, prefix(id) + "making it from dims " + join(shape));
    return logical_tensor(c);
}

logical_tensor with_ndims(
        size_t id, data_type dtype, int64_t ndims, layout_type layout, property_type property) {
    if (ndims < -1 || ndims > max_ndims)
        raise_invalid_shape(prefix(id) + "ndims must be -1 (unknown) or 0 to "
                + std::to_string(max_ndims) + ", got " + std::to_string(ndims));
    if (layout == layout_type::opaque)
        raise_invalid_arguments(prefix(id) + "layout_type opaque needs dims and layout_id");
    dnnl_graph_logical_tensor_t c;
    const auto status = dnnl_graph_logical_tensor_init(&c, id, static_cast<dnnl_data_type_t>(dtype),
            static_cast<int32_t>(ndims), static_cast<dnnl_graph_layout_type_t>(layout),
            static_cast<dnnl_graph_tensor_property_t>(property));
    if (status != dnnl_success)
        raise_failure(status, prefix(id) + "making it from ndims " + std::to_string(ndims));
    return logical_tensor(c);
}

logical_tensor with_strides(size_t id, data_type dtype, const dims &shape, const dims &strides,
        property_type property) {
    check_dims(id, dtype, shape);
    if (strides.size() != shape.size())
        raise_invalid_shape(prefix(id) + "strides " + join(strides) + " must have one entry for "
                "each of the dims " + join(shape));
    int64_t last = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
        if (strides[i] < 0)
            raise_invalid_shape(prefix(id) + "strides " + join(strides) + " must be known and not "
                    "negative (they count elements)");
        const int64_t steps =
                shape[i] == DNNL_GRAPH_UNKNOWN_DIM ? 0 : std::max<int64_t>(shape[i] - 1, 0);
        if (steps && strides[i] > (max_bytes - last) / 8 / steps)
            raise_invalid_shape(
                    prefix(id) + "strides " + join(strides) + " reach further than memory can");
        last += steps * strides[i];
    }
    if (shape.empty()) return with_dims(id, dtype, shape, layout_type::strided, property);
    dnnl_graph_logical_tensor_t c;
    const auto status = dnnl_graph_logical_tensor_init_with_strides(&c, id,
            static_cast<dnnl_data_type_t>(dtype), static_cast<int32_t>(shape.size()), shape.data(),
            strides.data(), static_cast<dnnl_graph_tensor_property_t>(property));
    if (status != dnnl_success)
        raise_failure(status, prefix(id) + "making it from strides " + join(strides));
    return logical_tensor(c);
}

logical_tensor with_layout_id(
        size_t id, data_type dtype, const dims &shape, size_t layout_id, property_type property) {
    logical_tensor made = with_dims(id, dtype, shape, layout_type::undef, property);
    made.data.layout_type = dnnl_graph_layout_type_opaque;
    made.data.layout.layout_id = layout_id;
    if (!knows_opaque_layout(made.data))
        raise_invalid_arguments(prefix(id) + "layout_id " + std::to_string(layout_id)
                + " is not one that oneDNN gave in this process for " + enum_name(dtype) + " "
                + shape_text(made.data) + "; opaque layouts come from "
                "compiled_partition.query_logical_tensor");
    return made;
}

using pickled = py::typing::Tuple<py::object, py::ellipsis>;

pickled state_of(const logical_tensor &lt) {
    const auto &c = lt.get();
    if (c.layout_type == dnnl_graph_layout_type_opaque)
        raise_invalid_arguments(
                "logical_tensor: an opaque layout has no meaning in another process "
                "and can't be pickled");
    return py::make_tuple(
            c.id, lt.dtype(), c.ndims, lt.shape(), lt.layout(), lt.strides(), lt.property());
}

logical_tensor from_state(const pickled &state) {
    if (state.size() != 7)
        throw py::value_error("logical_tensor: this is not a pickled logical_tensor");
    const auto id = state[0].cast<size_t>();
    const auto dtype = state[1].cast<data_type>();
    const auto ndims = state[2].cast<int>();
    const auto shape = state[3].cast<dims>();
    const auto layout = state[4].cast<layout_type>();
    const auto strides = state[5].cast<dims>();
    const auto property = state[6].cast<property_type>();
    if (ndims > 0 && shape.size() != static_cast<size_t>(ndims))
        throw py::value_error("logical_tensor: this is not a pickled logical_tensor");
    if (ndims <= 0) return with_ndims(id, dtype, ndims, layout, property);
    const bool known =
            std::none_of(strides.begin(), strides.end(), [](int64_t s) { return s < 0; });
    if (layout == layout_type::strided && known)
        return with_strides(id, dtype, shape, strides, property);
    return with_dims(id, dtype, shape, layout, property);
}

}  // namespace

const dnnl_graph_logical_tensor_t &logical_tensor::get() const {
    if (!initialised)
        raise_invalid_arguments("logical_tensor: this one is empty (default-constructed)");
    return data;
}

bool logical_tensor::has_known_dims() const {
    return data.ndims >= 0
            && std::none_of(data.dims, data.dims + data.ndims, [](int64_t d) { return d < 0; });
}

bool operator==(const logical_tensor &a, const logical_tensor &b) {
    if (a.initialised != b.initialised) return false;
    if (!a.initialised) return true;
    const auto &x = a.data, &y = b.data;
    if (x.id != y.id || x.data_type != y.data_type || x.property != y.property
            || x.layout_type != y.layout_type || !same_dims(x, y))
        return false;
    if (x.ndims <= 0) return true;
    if (x.layout_type == dnnl_graph_layout_type_strided)
        return std::equal(x.layout.strides, x.layout.strides + x.ndims, y.layout.strides);
    if (x.layout_type == dnnl_graph_layout_type_opaque)
        return x.layout.layout_id == y.layout.layout_id;
    return true;
}

std::string shape_text(const dnnl_graph_logical_tensor_t &lt) {
    if (lt.ndims < 0) return "unknown rank";
    if (lt.ndims == 0) return "scalar";
    std::string text;
    for (int i = 0; i < lt.ndims; ++i)
        text += (i ? "x" : "")
                + (lt.dims[i] == DNNL_GRAPH_UNKNOWN_DIM ? std::string("?")
                                                        : std::to_string(lt.dims[i]));
    return text;
}

std::string describe(const logical_tensor &lt) {
    if (!lt.initialised) return "";
    std::string text = "id=" + std::to_string(lt.id()) + ", " + enum_name(lt.dtype()) + ", "
            + shape_text(lt.data);
    if (lt.layout() == layout_type::strided && lt.ndims() > 0) {
        text += ", strides ";
        for (int i = 0; i < lt.ndims(); ++i) {
            const int64_t s = lt.data.layout.strides[i];
            text += (i ? "x" : "") + (s < 0 ? std::string("?") : std::to_string(s));
        }
    }
    text += ", " + enum_name(lt.layout());
    if (lt.layout() == layout_type::opaque) text += " " + std::to_string(lt.data.layout.layout_id);
    return text + ", " + enum_name(lt.property());
}

std::string repr(const logical_tensor &lt) { return "logical_tensor(" + describe(lt) + ")"; }

size_t required_bytes(const logical_tensor &lt) {
    const auto &c = lt.get();
    const auto name = [&] { return repr(lt); };
    const auto &info = info_of(lt.dtype());
    if (!lt.has_known_dims())
        raise_invalid_shape(name() + ": its dims must be known before it can have memory");
    if (c.layout_type == dnnl_graph_layout_type_opaque) {
        size_t size = 0;
        const auto status = dnnl_graph_logical_tensor_get_mem_size(&c, &size);
        if (status != dnnl_success) raise_failure(status, name() + ": get_mem_size");
        return size;
    }
    if (c.layout_type != dnnl_graph_layout_type_strided && c.ndims != 0)
        raise_invalid_shape(name() + ": its layout must be strided or opaque before it can have "
                "memory, it is " + enum_name(lt.layout()));
    int64_t last = 0;
    for (int i = 0; i < c.ndims; ++i) {
        if (c.dims[i] == 0) return 0;
        if (c.dims[i] > 1) last += (c.dims[i] - 1) * c.layout.strides[i];
    }
    const auto elements = static_cast<size_t>(last + 1);
    return info.bits < 8 ? (elements * static_cast<size_t>(info.bits) + 7) / 8
                         : elements * static_cast<size_t>(info.bits / 8);
}

void remember_opaque_layout(const dnnl_graph_logical_tensor_t &lt) {
    if (lt.layout_type != dnnl_graph_layout_type_opaque) return;
    if (knows_opaque_layout(lt)) return;
    std::lock_guard<std::mutex> lock(opaque_mutex);
    opaque_layouts[lt.layout.layout_id].push_back(lt);
}

void init_logical_tensor(py::module_ &m) {
    py::class_<logical_tensor> cls(m, "logical_tensor",
            "Id, data type, dims, layout and property of a tensor, without its memory. Mirrors\n"
            "``dnnl::graph::logical_tensor`` (oneDNN page: Graph API, Basic Concepts).\n\n"
            ">>> logical_tensor(0, 'f32', [64, 1280], 'strided', 'variable')\n"
            "logical_tensor(id=0, f32, 64x1280, strides 1280x1, strided, variable)\n\n"
            "Parameters\n----------\n"
            "id : int\n    Unique in its graph; equal ids connect ops.\n"
            "data_type : logical_tensor.data_type or str\n"
            "ndims : int\n    Rank, -1 when unknown.\n"
            "dims : sequence of int\n    At most 12 entries; -1, None or `UNKNOWN_DIM` for an unknown one.\n"
            "strides : sequence of int\n    In elements, one for each of `dims`.\n"
            "layout_id : int\n    Of an opaque layout that oneDNN gave in this process.\n"
            "layout_type : logical_tensor.layout_type or str\n"
            "property_type : logical_tensor.property_type or str\n\n"
            "Raises\n------\n"
            "InvalidShapeError\n    Dims or strides are negative, too many, too large or don't match.\n"
            "InvalidArgumentsError\n    A name is unknown, or `layout_id` is not oneDNN's.");
    define_enum<data_type>(cls, "data_type", plain_enum,
            "Data types. Mirrors ``dnnl::graph::logical_tensor::data_type``.");
    define_enum<layout_type>(cls, "layout_type", plain_enum,
            "Layout types. Mirrors ``dnnl::graph::logical_tensor::layout_type``.");
    define_enum<property_type>(cls, "property_type", plain_enum,
            "Tensor properties. Mirrors ``dnnl::graph::logical_tensor::property_type``.");
    alias_enum<data_type>(cls, cls.attr("data_type"), "dt_undef");
    alias_enum<layout_type>(cls, cls.attr("layout_type"), "lt_undef");
    alias_enum<property_type>(cls, cls.attr("property_type"), "pt_undef");

    using dt = enum_arg<data_type>;
    using lt = enum_arg<layout_type>;
    using pt = enum_arg<property_type>;

    cls.def(py::init<>(), "An empty logical tensor; using it raises `InvalidArgumentsError`.")
            .def(py::init<const logical_tensor &>(), py::arg("other"), "A copy.")
            .def(py::init([](index_arg id, dt type, lt layout) {
                return with_ndims(id, type, -1, layout, property_type::undef);
            }),
                    py::arg("id"), py::arg("data_type"),
                    defaults_to("layout_type", layout_type::undef), "Of unknown rank.")
            .def(py::init([](index_arg id, dt type, integer_arg ndims, lt layout, pt property) {
                return with_ndims(id, type, ndims.value, layout, property);
            }),
                    py::arg("id"), py::arg("data_type"), py::arg("ndims"), py::arg("layout_type"),
                    defaults_to("property_type", property_type::undef),
                    "Of known rank with unknown dims.")
            .def(py::init([](index_arg id, dt type, const dims_arg &shape, lt layout, pt property) {
                return with_dims(id, type, shape.values, layout, property);
            }),
                    py::arg("id"), py::arg("data_type"), py::arg("dims"), py::arg("layout_type"),
                    defaults_to("property_type", property_type::undef),
                    "Of known dims; strided means row-major.")
            .def(py::init([](index_arg id, dt type, const dims_arg &shape, const dims_arg &strides,
                                  pt property) {
                return with_strides(id, type, shape.values, strides.values, property);
            }),
                    py::arg("id"), py::arg("data_type"), py::arg("dims"), py::arg("strides"),
                    defaults_to("property_type", property_type::undef),
                    "Of known dims and strides.")
            .def(py::init([](index_arg id, dt type, const dims_arg &shape, index_arg layout_id,
                                  pt property) {
                return with_layout_id(id, type, shape.values, layout_id, property);
            }),
                    py::arg("id"), py::arg("data_type"), py::arg("dims"), py::arg("layout_id"),
                    defaults_to("property_type", property_type::undef),
                    "Of known dims in an opaque layout.")
            .def(
                    "get_id", [](const logical_tensor &self) { return self.get().id; }, "The id.")
            .def(
                    "get_data_type",
                    [](const logical_tensor &self) {
                        self.get();
                        return self.dtype();
                    },
                    "The data type.")
            .def(
                    "get_property_type",
                    [](const logical_tensor &self) {
                        self.get();
                        return self.property();
                    },
                    "The property.")
            .def(
                    "get_layout_type",
                    [](const logical_tensor &self) {
                        self.get();
                        return self.layout();
                    },
                    "The layout type.")
            .def(
                    "get_dims",
                    [](const logical_tensor &self) {
                        if (self.get().ndims < 0)
                            raise_invalid_arguments(repr(self) + ": get_dims needs a known rank");
                        return self.shape();
                    },
                    "The dims as a list; an unknown one is `UNKNOWN_DIM`.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    The rank is unknown.")
            .def(
                    "get_strides",
                    [](const logical_tensor &self) {
                        self.get();
                        if (self.layout() != layout_type::strided)
                            raise_invalid_arguments(
                                    repr(self) + ": get_strides needs a strided layout");
                        if (self.ndims() < 0)
                            raise_invalid_arguments(
                                    repr(self) + ": get_strides needs a known rank");
                        return self.strides();
                    },
                    "The strides in elements, as a list.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    The layout is not strided.")
            .def(
                    "get_layout_id",
                    [](const logical_tensor &self) {
                        self.get();
                        if (self.layout() != layout_type::opaque)
                            raise_invalid_arguments(
                                    repr(self) + ": get_layout_id needs an opaque layout");
                        return self.data.layout.layout_id;
                    },
                    "Id of the opaque layout.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    The layout is not opaque.")
            .def(
                    "get_mem_size", [](const logical_tensor &self) { return required_bytes(self); },
                    "Bytes that memory for this tensor must have, from its first to its last element.\n\n"
                    "Where strides overlap this is right and oneDNN's own figure too small.\n\n"
                    "Raises\n------\nInvalidShapeError\n"
                    "    Dims are unknown, or the layout is neither strided nor opaque.\n"
                    "InvalidDataTypeError\n    The data type is undef.")
            .def(
                    "is_equal",
                    [](const logical_tensor &self, const logical_tensor &other) {
                        return self.cpp().is_equal(other.cpp());
                    },
                    py::arg("other"),
                    "Whether oneDNN treats both as equal; a strided and an opaque layout can be.")
            .def(
                    "__eq__",
                    [](const logical_tensor &self, const logical_tensor &other) {
                        return self == other;
                    },
                    py::is_operator())
            .def("__hash__",
                    [](const logical_tensor &self) {
                        py::list parts;
                        if (self.initialised) {
                            parts.append(self.data.id);
                            parts.append(static_cast<int>(self.data.data_type));
                            parts.append(py::tuple(py::cast(self.shape())));
                        }
                        return py::hash(py::tuple(parts));
                    })
            .def("__repr__", [](const logical_tensor &self) { return repr(self); })
            .def(py::pickle(&state_of, &from_state));

    m.attr("UNKNOWN_DIM") = py::int_(DNNL_GRAPH_UNKNOWN_DIM);
    m.attr("UNKNOWN_NDIMS") = py::int_(DNNL_GRAPH_UNKNOWN_NDIMS);
    m.attr("MAX_NDIMS") = py::int_(max_ndims);
    init_dtypes(m);
}

}  // namespace ogp
