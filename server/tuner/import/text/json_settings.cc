#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/import/text/config_settings.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 64;

void Flatten(const Json& object, const std::string& prefix, std::vector<Setting>& settings) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (value.is_object()) {
      Flatten(value, path, settings);
      continue;
    }
    Setting setting = {.key = path,
                       .value = value.is_string() ? value.get<std::string>() : value.dump()};
    // DeepSpeed's "auto" is filled in by the trainer that reads the file.
    if (value == "auto") setting.unresolved = fmt::format("{} = auto", path);
    settings.push_back(std::move(setting));
  }
}

}  // namespace

absl::StatusOr<std::vector<Setting>> JsonSettings(std::string_view text, std::string_view file) {
  std::vector<Setting> settings;
  try {
    // Comments are allowed, as in the files that people have.
    bool is_deep = false;
    const auto is_shallow = [&is_deep](int depth, Json::parse_event_t /*event*/, Json& /*part*/) {
      is_deep = is_deep || depth > kMaxJsonDepth;
      return depth <= kMaxJsonDepth;
    };
    const Json json = Json::parse(text.begin(), text.end(), is_shallow, true, true);
    if (is_deep) {
      return InvalidFields(
          {{.field = std::string(file),
            .description = fmt::format("nested deeper than {} levels", kMaxJsonDepth)}});
    }
    if (!json.is_object()) {
      return InvalidFields({{.field = std::string(file), .description = "must be a JSON object"}});
    }
    Flatten(json, "", settings);
  } catch (const Json::parse_error& error) {
    return InvalidFields({{.field = std::string(file), .description = error.what()}});
  }
  return settings;
}

}  // namespace meshwright
