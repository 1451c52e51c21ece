#include "search_space/base/shown_value.h"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace meshwright {

std::string ShownValue(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace meshwright
