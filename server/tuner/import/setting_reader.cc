#include "server/tuner/import/setting_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "search_space/base/lower_case.h"

namespace meshwright {
namespace {

constexpr int kMaxDegree = 40'000;

template <typename T>
std::optional<T> Parsed(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

std::optional<bool> ParsedBool(std::string_view text) {
  const std::string lower = LowerCase(text);
  if (lower.empty() || lower == "true" || lower == "yes" || lower == "on" || lower == "1") {
    return true;
  }
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  return std::nullopt;
}

// Python writes whole numbers such as 1e3 too.
std::optional<int> ParsedInt(std::string_view text) {
  if (const auto whole = Parsed<int>(text)) return whole;
  const auto number = Parsed<double>(text);
  if (!number.has_value() || std::abs(*number) > 2e9 || *number != std::floor(*number)) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

bool IsNull(std::string_view value) { return value == "null" || value == "None" || value == "~"; }

std::vector<std::string> Items(const std::string& value) {
  std::vector<std::string> items;
  const nlohmann::json json = nlohmann::json::parse(value, nullptr, false);
  if (json.is_array()) {
    for (const auto& item : json) {
      items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    }
    return items;
  }
  std::string spaced = value;
  std::ranges::replace(spaced, ',', ' ');
  std::erase_if(spaced, [](char c) { return c == '[' || c == ']'; });
  std::istringstream words(spaced);
  for (std::string word; words >> word;) items.push_back(word);
  return items;
}

const OtherKey* FindRow(std::span<const OtherKey> table, std::string_view key) {
  const OtherKey* found = nullptr;
  for (const OtherKey& row : table) {
    if (row.key == key) return &row;
    const bool is_prefix = row.key.ends_with('*');
    if (is_prefix && key.starts_with(row.key.substr(0, row.key.size() - 1)) &&
        (found == nullptr || row.key.size() > found->key.size())) {
      found = &row;
    }
  }
  return found;
}

}  // namespace

SettingReader::SettingReader(std::vector<Setting> settings) {
  entries_.reserve(settings.size());
  for (Setting& setting : settings) entries_.push_back({.setting = std::move(setting)});
}

bool SettingReader::Has(std::string_view key) const {
  return std::ranges::any_of(entries_, [&](const Entry& e) { return e.setting.key == key; });
}

bool SettingReader::IsSet(std::string_view key) const {
  bool is_set = false;
  for (const Entry& entry : entries_) {
    if (entry.setting.key == key) is_set = !IsNull(entry.setting.value);
  }
  return is_set;
}

const Setting* SettingReader::Take(std::string_view key) {
  const Setting* found = nullptr;
  for (Entry& entry : entries_) {
    if (entry.setting.key != key) continue;
    const bool is_new = !entry.is_taken;
    entry.is_taken = true;
    if (found != nullptr && is_new && found->value != entry.setting.value) {
      Note(fmt::format("{} = {} and then {}; the last counts", key, found->value,
                       entry.setting.value));
    }
    found = &entry.setting;
  }
  if (found == nullptr) return nullptr;
  if (!found->unresolved.empty()) {
    Refuse(key, fmt::format("depends on {}, which the file does not say; state it with --set",
                            found->unresolved));
    return nullptr;
  }
  return IsNull(found->value) ? nullptr : found;
}

std::optional<int> SettingReader::Int(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  const auto value = ParsedInt(setting->value);
  if (!value.has_value()) Refuse(key, setting->value + "; must be a whole number");
  return value;
}

int SettingReader::Degree(std::string_view key, std::optional<int> unset) {
  const std::optional<int> stated = Int(key);
  if (!stated.has_value() || stated == unset) return 1;
  if (*stated >= 1 && *stated <= kMaxDegree) return *stated;
  Refuse(key, fmt::format("{}; must be between 1 and {}", *stated, kMaxDegree));
  return 1;
}

std::optional<double> SettingReader::Number(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  const auto value = Parsed<double>(setting->value);
  if (!value.has_value()) Refuse(key, setting->value + "; must be a number");
  return value;
}

std::optional<bool> SettingReader::Bool(std::string_view key) {
  const Setting* setting = Take(key);
  if (setting == nullptr) return std::nullopt;
  const auto value = ParsedBool(setting->value);
  if (!value.has_value()) Refuse(key, setting->value + "; must be true or false");
  return value;
}

std::optional<std::string> SettingReader::Text(std::string_view key) {
  const Setting* setting = Take(key);
  return setting == nullptr ? std::nullopt : std::optional(setting->value);
}

std::vector<std::string> SettingReader::List(std::string_view key) {
  const Setting* setting = Take(key);
  return setting == nullptr ? std::vector<std::string>() : Items(setting->value);
}

std::vector<int> SettingReader::Ints(std::string_view key) {
  std::vector<int> numbers;
  for (const std::string& item : List(key)) {
    if (const auto number = ParsedInt(item)) {
      numbers.push_back(*number);
      continue;
    }
    Refuse(key, item + "; must be a list of whole numbers");
    return {};
  }
  return numbers;
}

void SettingReader::Refuse(std::string_view key, std::string description) {
  const auto is_same = [&](const FieldViolation& v) { return v.field == key; };
  if (std::ranges::any_of(violations_, is_same)) return;
  std::string place;
  for (const Entry& entry : entries_) {
    if (entry.setting.key == key && !entry.setting.place.empty()) {
      place = fmt::format(" ({})", entry.setting.place);
    }
  }
  violations_.push_back({.field = std::string(key), .description = std::move(description) + place});
}

std::vector<UnusedKey> SettingReader::TakeRest(std::span<const OtherKey> table) {
  std::vector<UnusedKey> rest;
  for (Entry& entry : entries_) {
    if (std::exchange(entry.is_taken, true)) continue;
    const OtherKey* row = FindRow(table, entry.setting.key);
    if (row != nullptr && row->use == KeyUse::kNotModelled) {
      // A switch that is off has no effect.
      if (ParsedBool(entry.setting.value) == false || IsNull(entry.setting.value)) {
        rest.push_back({.key = entry.setting.key, .reason = "off"});
        continue;
      }
      Note(fmt::format("{}: {}", entry.setting.key, row->reason));
    }
    rest.push_back(
        {.key = entry.setting.key, .reason = row == nullptr ? "" : std::string(row->reason)});
  }
  return rest;
}

std::vector<Setting> SettingReader::Extract(const std::function<bool(const Setting&)>& is_part) {
  std::vector<Setting> part;
  std::vector<Entry> kept;
  for (Entry& entry : entries_) {
    if (is_part(entry.setting)) {
      part.push_back(std::move(entry.setting));
    } else {
      kept.push_back(std::move(entry));
    }
  }
  entries_ = std::move(kept);
  return part;
}

}  // namespace meshwright
