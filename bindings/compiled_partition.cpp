#include "compiled_partition.hpp"

#include <algorithm>
#include <set>

#include "arguments.hpp"
#include "call.hpp"

namespace ogp {

const dg::compiled_partition &compiled_partition::get() const {
    if (!value)
        raise_invalid_arguments("compiled_partition: this one is empty (default-constructed)");
    return value;
}

void init_compiled_partition(py::module_ &m) {
    py::class_<compiled_partition, compiled_partition_ptr>(m, "compiled_partition",
            "A partition compiled for shapes, layouts and an engine. Mirrors\n"
            "``dnnl::graph::compiled_partition`` (oneDNN page: Graph API, Basic Concepts).\n\n"
            "It may be executed from many threads at once.")
            .def(py::init<>(), "An empty one; using it raises `InvalidArgumentsError`.")
            .def(
                    "query_logical_tensor",
                    [](const compiled_partition &self, index_arg id) {
                        self.get();
                        for (const auto *list : {&self.inputs, &self.outputs})
                            for (const auto &lt : *list)
                                if (lt.id() == id.value) return lt;
                        raise_invalid_arguments(self.name + ": query_logical_tensor: "
                                + std::to_string(id.value) + " is neither an input nor an output");
                    },
                    py::arg("tid"),
                    "The logical tensor of an input or output, with its final dims and layout.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n    There is no such id.")
            .def(
                    "get_inplace_ports",
                    [](const compiled_partition &self) {
                        self.get();
                        return self.inplace_ports;
                    },
                    "Pairs (input id, output id) that may share their memory.")
            .def(
                    "get_scratchpad_logical_tensor",
                    [](const compiled_partition &self) {
                        self.get();
#if OGP_ONEDNN_AT_LEAST(3, 13)
                        dnnl_graph_logical_tensor_t c;
                        const auto status =
                                dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(
                                        self.value.get(), &c);
                        if (status != dnnl_success)
                            raise_failure(status, self.name + ": get_scratchpad_logical_tensor");
                        return logical_tensor(c);
#else
                raise_needs_version("compiled_partition.get_scratchpad_logical_tensor", "3.13");
                return logical_tensor();
#endif
                    },
                    "Logical tensor (flat u8) of the scratchpad that `execute` may be given.\n\n"
                    "Raises\n------\nUnimplementedError\n    The linked oneDNN is older than 3.13.")
            .def(
                    "get_inputs",
                    [](const compiled_partition &self) {
                        self.get();
                        return self.inputs;
                    },
                    "Logical tensors of the inputs, in the order that `execute` takes.")
            .def(
                    "get_outputs",
                    [](const compiled_partition &self) {
                        self.get();
                        return self.outputs;
                    },
                    "Logical tensors of the outputs, in the order that `execute` takes.")
            .def(
                    "get",
                    [](const compiled_partition &self) {
                        return reinterpret_cast<uintptr_t>(self.get().get());
                    },
                    "Address of the C handle, for other extensions.")
            .def("__bool__",
                    [](const compiled_partition &self) { return static_cast<bool>(self.value); })
            .def("__repr__", [](const compiled_partition &self) {
                if (!self.value) return std::string("compiled_partition()");
                const auto list = [](const std::vector<logical_tensor> &lts) {
                    std::string text;
                    for (size_t i = 0; i < lts.size(); ++i)
                        text += (i ? ", " : "") + std::to_string(lts[i].id()) + ": "
                                + enum_name(lts[i].dtype()) + " " + shape_text(lts[i].data);
                    return "[" + text + "]";
                };
                return "compiled_partition(" + self.name + ", inputs " + list(self.inputs)
                        + ", outputs " + list(self.outputs) + ")";
            });

    m.def(
            "_reordered_again",
            [](const std::vector<compiled_partition_ptr> &compiled) {
                size_t bytes = 0;
                std::set<const cached_constants *> counted;
                for (const auto &c : compiled)
                    if (c && c->constants && counted.insert(c->constants.get()).second)
                        bytes += c->constants->made_again();
                return bytes;
            },
            py::arg("compiled"),
            "How many bytes of these partitions' constants were reordered once more, because oneDNN's\n"
            "cache had been emptied. Constants that several share count once.");
}

}  // namespace ogp
