// Python value -> the C++ type that an attribute takes.
#pragma once

#include "op.hpp"

namespace ogp {

// Converts by the attribute, never by the value; raises with `context` in front.
attr_value attribute_from_python(dg::op::attr name, py::handle value, const std::string &context);

py::object attribute_to_python(const attr_value &value);

void set_attribute(dg::op &target, dg::op::attr name, const attr_value &value);

}  // namespace ogp
