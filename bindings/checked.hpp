// Which ops and partitions Python has checked and found right, so that it is asked once for those
// that are equal but for ids and names: the layers of a model.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "op.hpp"

namespace ogp {

// All that a check reads of what it is asked about, as bytes.
class check_key {
public:
    explicit check_key(const char *check) { add(std::string(check)); }

    void add(int64_t value) { append(&value, sizeof value); }
    void add(const std::string &text);
    void add(const logical_tensor &lt);
    void add(const std::vector<logical_tensor> &lts);
    void add(const op &o);

    const std::string &bytes() const { return bytes_; }

private:
    void append(const void *data, size_t size) {
        bytes_.append(static_cast<const char *>(data), size);
    }
    void add(const attr_value &value);

    std::string bytes_;
    std::unordered_map<size_t, int64_t> numbers_;  // of ids, in the order in which they occur
};

bool was_checked(const check_key &key);
void remember_checked(const check_key &key);

}  // namespace ogp
