#include "op.hpp"

#include "arguments.hpp"
#include "attributes.hpp"
#include "call.hpp"
#include "python_hooks.hpp"

namespace ogp {
namespace {

std::vector<dg::logical_tensor> to_cpp(const std::vector<logical_tensor> &lts) {
    std::vector<dg::logical_tensor> result;
    for (const auto &lt : lts) result.push_back(lt.cpp());
    return result;
}

std::string attr_text(const attr_value &value) {
    return py::repr(attribute_to_python(value)).cast<std::string>();
}

op make_op(size_t id, dg::op::kind kind, const std::string &name) {
    if (kind == dg::op::kind::LastSymbol)
        raise_invalid_arguments("op " + std::to_string(id)
                + ": LastSymbol only marks the end of the op kinds, it is no op");
    if (name.find('\0') != std::string::npos)
        raise_invalid_arguments("op " + std::to_string(id) + ": its name must not contain NUL");
    op made;
    made.id = id;
    made.kind = kind;
    made.name = name;
    return made;
}

using lt_tuple = py::typing::Tuple<logical_tensor, py::ellipsis>;

lt_tuple as_tuple(const std::vector<logical_tensor> &lts) {
    return py::reinterpret_steal<lt_tuple>(py::tuple(py::cast(lts)).release());
}

void check_thawed(const op &o) {
    if (o.frozen)
        raise_invalid_graph_op(label(o) + ": a graph or partition has taken a copy of this op, which "
                "this change would not reach; make a new op");
}

void append(op &o, std::vector<logical_tensor> &ports, const std::vector<logical_tensor> &added) {
    check_thawed(o);
    for (const auto &lt : added) lt.get();
    ports.insert(ports.end(), added.begin(), added.end());
}

bool is_quantization(dg::op::kind kind) {
    using k = dg::op::kind;
    return kind == k::Quantize || kind == k::Dequantize || kind == k::DynamicQuantize
            || kind == k::DynamicDequantize;
}

// Documented negative axes of quantization give wrong results in oneDNN; the same axis counted from
// the front is right. `safety.limits` refuses one whose rank is unknown.
attr_value counted_from_front(const op &o, dg::op::attr name, const attr_value &value) {
    const auto *axis = std::get_if<int64_t>(&value);
    if (name != dg::op::attr::axis || !axis || *axis >= 0 || !is_quantization(o.kind)
            || o.inputs.empty())
        return value;
    const int64_t rank = o.inputs[0].ndims();
    return rank >= 0 && *axis >= -rank ? *axis + rank : *axis;
}

}  // namespace

std::string label(const op &o) {
    std::string text = "op " + std::to_string(o.id);
    if (!o.name.empty()) text += " '" + o.name + "'";
    return text + " (" + enum_name(o.kind) + ")";
}

std::string repr(const op &o) {
    std::string text = "op(" + std::to_string(o.id) + ", " + enum_name(o.kind);
    if (!o.name.empty()) text += ", '" + o.name + "'";
    const auto ids = [](const std::vector<logical_tensor> &lts) {
        std::string list;
        for (size_t i = 0; i < lts.size(); ++i)
            list += (i ? ", " : "") + std::to_string(lts[i].id());
        return "[" + list + "]";
    };
    text += ", inputs=" + ids(o.inputs) + ", outputs=" + ids(o.outputs);
    for (const auto &[name, value] : o.attrs)
        text += ", " + enum_name(name) + "=" + attr_text(value);
    return text + ")";
}

dg::op op::cpp() const {
    dg::op made(id, kind, to_cpp(inputs), to_cpp(outputs), name);
    for (const auto &[attr_name, value] : attrs)
        set_attribute(made, attr_name, counted_from_front(*this, attr_name, value));
    return made;
}

void init_op(py::module_ &m) {
    py::class_<op, std::shared_ptr<op>> cls(m, "op",
            "One operation of a graph. Mirrors ``dnnl::graph::op`` (oneDNN page: Graph API, Basic\n"
            "Concepts; each kind has a page of its own under Operations).\n\n"
            "A graph or partition takes a copy; after that the op can't be changed, but be added to\n"
            "other graphs.\n\n"
            ">>> matmul = op(0, 'MatMul', 'fc')\n"
            ">>> matmul.set_attr('transpose_b', True)\n"
            "op(0, MatMul, 'fc', inputs=[], outputs=[], transpose_b=True)\n\n"
            "Parameters\n----------\n"
            "id : int\n    Unique in its graph.\n"
            "kind : op.kind or str\n"
            "inputs, outputs : list of logical_tensor, optional\n    In the order of the op's ports.\n"
            "verbose_name : str, optional\n    Shown in messages and oneDNN's log.\n\n"
            "Raises\n------\n"
            "InvalidArgumentsError\n    The kind or an argument is unknown.\n"
            "UnimplementedError\n    The linked oneDNN is too old for the kind.");
    define_enum<dg::op::kind>(
            cls, "kind", plain_enum, "Kinds of op. Mirrors ``dnnl::graph::op::kind``.");
    define_enum<dg::op::attr>(
            cls, "attr", plain_enum, "Attributes of ops. Mirrors ``dnnl::graph::op::attr``.");
    alias_enum<dg::op::kind>(cls, cls.attr("kind"));
    alias_enum<dg::op::attr>(cls, cls.attr("attr"), "undef");

    using lts = std::vector<logical_tensor>;
    cls.def(py::init([](index_arg id, enum_arg<dg::op::kind> kind, const std::string &name) {
           return std::make_shared<op>(make_op(id, kind, name));
       }),
               py::arg("id"), py::arg("kind"), py::arg("verbose_name") = "")
            .def(py::init([](index_arg id, enum_arg<dg::op::kind> kind, const lts &inputs,
                                  const lts &outputs, const std::string &name) {
                auto made = std::make_shared<op>(make_op(id, kind, name));
                append(*made, made->inputs, inputs);
                append(*made, made->outputs, outputs);
                return made;
            }),
                    py::arg("id"), py::arg("kind"), py::arg("inputs"), py::arg("outputs"),
                    py::arg("verbose_name") = "")
            .def(
                    "add_input",
                    [](op &self, const logical_tensor &t) { append(self, self.inputs, {t}); },
                    py::arg("t"), "Appends an input.")
            .def(
                    "add_inputs", [](op &self, const lts &ts) { append(self, self.inputs, ts); },
                    py::arg("ts"), "Appends inputs, in order.")
            .def(
                    "add_output",
                    [](op &self, const logical_tensor &t) { append(self, self.outputs, {t}); },
                    py::arg("t"), "Appends an output.")
            .def(
                    "add_outputs", [](op &self, const lts &ts) { append(self, self.outputs, ts); },
                    py::arg("ts"), "Appends outputs, in order.")
            .def(
                    "set_attr",
                    [](std::shared_ptr<op> self, enum_arg<dg::op::attr> name, py::handle value) {
                        check_thawed(*self);
                        attr_value made = attribute_from_python(name, value, label(*self) + ": ");
                        if (auto *text = std::get_if<std::string>(&made))
                            *text = library_spelling(*self, name, *text);
                        self->attrs[name] = std::move(made);
                        return self;
                    },
                    py::arg("name"), py::arg("value"),
                    "Sets an attribute; the C++ type is the attribute's, not the value's.\n\n"
                    "Parameters\n----------\n"
                    "name : op.attr or str\n"
                    "value : int, float, bool, str, list, tuple, NumPy scalar or array\n"
                    "    Strings in the documents' spelling or the library's.\n\n"
                    "Returns\n-------\nop\n    This op.\n\n"
                    "Raises\n------\n"
                    "TypeError\n    The attribute takes another type.\n"
                    "InvalidArgumentsError\n    The list or string is empty, or a number too large.\n"
                    "InvalidGraphOpError\n    A graph has taken a copy of this op already.")
            .def(
                    "get_id", [](const op &self) { return self.id; }, "The id.")
            .def(
                    "get_kind", [](const op &self) { return self.kind; }, "The kind.")
            .def(
                    "get_name", [](const op &self) { return self.name; }, "The verbose name.")
            .def(
                    "get_inputs", [](const op &self) { return as_tuple(self.inputs); },
                    "The inputs, in order.")
            .def(
                    "get_outputs", [](const op &self) { return as_tuple(self.outputs); },
                    "The outputs, in order.")
            .def(
                    "get_attrs",
                    [](const op &self) {
                        py::typing::Dict<py::str, py::object> result;
                        for (const auto &[name, value] : self.attrs)
                            result[py::str(enum_name(name))] = attribute_to_python(value);
                        return result;
                    },
                    "The attributes that were set, by name.")
            .def("__repr__", [](const op &self) { return repr(self); });
}

}  // namespace ogp
