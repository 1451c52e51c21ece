#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// Finds the text of a member's value inside the text of a JSON object; the result is a part of
// `object`. Returns nullopt if there is no such member or the text is no object. The value is not
// checked: its parser reports its mistakes. If a key occurs twice, the first one counts.
std::optional<std::string_view> FindJsonMember(std::string_view object, std::string_view key);

}  // namespace meshwright
