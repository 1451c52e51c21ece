#include "server/plugins/stored_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "search_space/base/clean_text.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

using CheckJson = nlohmann::ordered_json;
using std::filesystem::path;

constexpr std::uintmax_t kMaxCheckFileBytes = 1 << 16;
constexpr std::size_t kLongestCheckText = 256;
constexpr int kMaxChecks = 1000;

path CheckPath(const std::string& folder, std::string_view model) {
  return path(folder) / "checks" / fmt::format("{}.json", model);
}

absl::Status UnusableCheck(std::string_view model, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("checks/{}.json: {}", model, why));
}

std::string CheckText(const CheckJson& value) {
  return value.is_string()
             ? CleanText(value.get<std::string>(), {.longest_bytes = kLongestCheckText})
             : std::string();
}

// Returns true for a time such as 2026-11-29T12:00:00.000Z.
bool IsUtcTime(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  return text.size() == kForm.size() && std::ranges::equal(text, kForm, [](char letter, char form) {
           return form == '0' ? letter >= '0' && letter <= '9' : letter == form;
         });
}

// Takes the fields out of the object, all of which must be there. Returns false if one is missing
// or is of another type.
bool TakeFields(const CheckJson& json, StoredCheck& check) {
  for (const auto& [field, text] : {std::pair("model", &check.model),
                                    {"checksum", &check.checksum},
                                    {"chip", &check.chip},
                                    {"time", &check.time}}) {
    *text = CheckText(json.value(field, CheckJson()));
    if (text->empty()) return false;
  }
  if (!IsUtcTime(check.time)) return false;
  for (const auto& [field, count] :
       {std::pair("passed_count", &check.passed_count), {"skipped_count", &check.skipped_count}}) {
    const CheckJson value = json.value(field, CheckJson());
    if (!value.is_number_integer() || value < 0 || value > kMaxChecks) return false;
    *count = value.get<int>();
  }
  const CheckJson failed = json.value("failed", CheckJson());
  if (!failed.is_array() || failed.size() > kMaxChecks ||
      !std::ranges::all_of(failed, &CheckJson::is_string))
    return false;
  for (const CheckJson& name : failed) check.failed.push_back(CheckText(name));
  return true;
}

}  // namespace

ModelFile FileOf(const std::string& folder, const StoredCheck& check) {
  const CheckJson json = {{"model", check.model},
                          {"checksum", check.checksum},
                          {"chip", check.chip},
                          {"time", check.time},
                          {"passed_count", check.passed_count},
                          {"skipped_count", check.skipped_count},
                          {"failed", check.failed}};
  return {.path = CheckPath(folder, check.model),
          .text = json.dump(2, ' ', false, CheckJson::error_handler_t::replace) + "\n"};
}

absl::StatusOr<std::optional<StoredCheck>> LoadCheck(const std::string& folder,
                                                     std::string_view model) {
  const path file = CheckPath(folder, model);
  std::error_code error;
  const bool is_there = std::filesystem::exists(file, error);
  if (error) return UnusableCheck(model, "cannot be read");
  if (!is_there) return std::optional<StoredCheck>();
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > kMaxCheckFileBytes) {
    return UnusableCheck(model, "cannot be read, or is too large");
  }
  std::ifstream in(file, std::ios::binary);
  const std::string text = RestOf(in);
  if (!in.is_open() || in.bad()) return UnusableCheck(model, "cannot be read");
  const CheckJson json = CheckJson::parse(text, nullptr, /*allow_exceptions=*/false);
  StoredCheck check;
  if (!json.is_object() || !TakeFields(json, check)) {
    return UnusableCheck(model, "is not the result of a check");
  }
  if (check.model != model) return UnusableCheck(model, "is of another model than its name says");
  return std::optional(std::move(check));
}

}  // namespace meshwright
