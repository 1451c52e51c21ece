#include "server/config_file.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <istream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "proto/json/closest_word.h"
#include "server/flags.h"

namespace meshwright {
namespace {

constexpr std::size_t kColumns = 98;  // after "# "

constexpr char kHead[] =
    "# The configuration of meshwrightd: meshwrightd --config FILE\n"
    "#\n"
    "# Each key is a flag of the same name. Keys behind a # have their defaults, if they have "
    "one.\n"
    "# The command line overrides the file. A key that is not known is an error; meshwrightd\n"
    "# --config FILE --check-config names all mistakes. docs/configuration.md has the rules.\n";

// Returns the names that a file may use, without dashes.
std::vector<std::string> KeysOf(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable() && !option->get_lnames().empty()) {
      keys.push_back(option->get_lnames().front());
    }
  }
  return keys;
}

bool TakesNoValue(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// Returns what is wrong with a value by setting nothing but it.
std::optional<std::string> MistakeOf(const std::string& key, const std::string& value) {
  Flags flags;
  CLI::App app;
  DeclareFlags(app, flags);
  try {
    std::vector<std::string> arguments = {fmt::format("--{}={}", key, value)};
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    std::string what = e.what();
    // CLI11 repeats the flag and the value.
    for (const std::string& start :
         {fmt::format("--{}: ", key), std::string("Value "), value + " "}) {
      if (what.starts_with(start)) what.erase(0, start.size());
    }
    return what;
  }
  return std::nullopt;
}

// CLI11's reader of TOML, which by itself ends at the first mistake, ignores lines of one or two
// characters, and takes the first of equal keys.
class StrictToml final : public CLI::ConfigBase {
 public:
  StrictToml(const CLI::App& app, std::vector<std::string>& mistakes)
      : app_(app), mistakes_(mistakes) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    CheckLines(text);
    std::istringstream again(text);
    std::vector<CLI::ConfigItem> valid;
    std::set<std::string> seen;
    for (const CLI::ConfigItem& item : ConfigBase::from_config(again)) {
      if (item.name == "++" || item.name == "--") continue;  // ends of sections
      if (auto mistake = Check(item, seen)) {
        Add(*mistake);
      } else {
        valid.push_back(item);
      }
    }
    return valid;
  }

 private:
  void Add(std::string_view what) const {
    mistakes_.push_back(fmt::format("{}: {}", app_.get_config_ptr()->as<std::string>(), what));
  }

  void CheckLines(const std::string& text) const {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      CLI::detail::trim(line);
      if (line.empty() || line.starts_with('#') || line.starts_with('[')) continue;
      const std::size_t equals = line.find('=');
      if (equals == std::string::npos || equals == 0 || line.size() < 3) {
        Add(fmt::format("line {}: must be KEY = VALUE", number));
      } else if (line.starts_with(';')) {
        Add(fmt::format("line {}: a comment must begin with #", number));
      }
    }
  }

  // Returns what is wrong with an item; nullopt if nothing is, or if CheckLines has said it.
  std::optional<std::string> Check(const CLI::ConfigItem& item, std::set<std::string>& seen) const {
    const std::string key = item.fullname();
    const std::vector<std::string> keys = KeysOf(app_);
    if (std::ranges::find(keys, key) == keys.end()) {
      const std::vector<std::string_view> words(keys.begin(), keys.end());
      const auto closest = ClosestWord(key, words);
      return fmt::format("{}: no such key{}", key,
                         closest.has_value() ? fmt::format("; did you mean {}?", *closest) : "");
    }
    if (!seen.insert(key).second || item.inputs.size() > 1) {
      return fmt::format("{}: more than one value; must have one", key);
    }
    const std::string value = item.inputs.empty() ? "" : item.inputs.front();
    if (value.empty()) return fmt::format("{}: no value; leave the key out", key);
    if (value.front() == '"' || value.front() == '\'') {
      return fmt::format("{} = {}; must be one text in quotes, without #", key, value);
    }
    const CLI::Option& option = *app_.get_option("--" + key);
    if (TakesNoValue(option)) {
      if (value == "true" || value == "false") return std::nullopt;
      return fmt::format("{} = {}; must be true or false", key, value);
    }
    const auto mistake = MistakeOf(key, value);
    if (!mistake.has_value()) return std::nullopt;
    return fmt::format("{} = {}; {}", key, value, *mistake);
  }

  const CLI::App& app_;
  std::vector<std::string>& mistakes_;
};

// Returns a text as comments of at most kColumns each.
std::string Comment(const std::string& text) {
  std::istringstream words(text);
  std::string comment;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      comment += fmt::format("# {}\n", std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return comment + fmt::format("# {}\n", line);
}

std::string ExampleOf(const CLI::Option& option) {
  if (TakesNoValue(option)) return "false";
  const std::string& stated = option.get_default_str();
  const std::string type = option.get_type_name();  // with its check: "DAYS:INT in [1 - 36500]"
  constexpr std::string_view kNumbers[] = {"DAYS", "HOURS", "SECONDS", "MIB", "COUNT"};
  const bool is_number =
      std::ranges::any_of(kNumbers, [&](std::string_view unit) { return type.starts_with(unit); });
  if (is_number) return stated.empty() ? "30" : stated;
  return fmt::format("\"{}\"", stated.empty() ? type : stated);
}

}  // namespace

void AddConfigFile(CLI::App& app, std::vector<std::string>& mistakes) {
  app.set_config("--config", "",
                 "TOML file with flags as keys; the command line wins (none; see --print-config)")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(std::make_shared<StrictToml>(app, mistakes));
}

std::string ConfigFileOf(const CLI::App& app) {
  std::string text = kHead;
  for (const std::string& key : KeysOf(app)) {
    const CLI::Option& option = *app.get_option("--" + key);
    text += "\n" + Comment(option.get_description());
    text += fmt::format("# {} = {}\n", key, ExampleOf(option));
  }
  return text;
}

}  // namespace meshwright
