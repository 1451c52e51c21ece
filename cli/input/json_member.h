#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// The text of a member's value inside the text of a JSON object; a part of `object`. Nothing when
// there is no such member or the text is no object. The value itself is not checked, so that
// whoever parses it says what is wrong with it; of two members with the same key the first counts.
std::optional<std::string_view> FindJsonMember(std::string_view object, std::string_view key);

}  // namespace meshwright
